// A run as the lab sends it: a line that says what it is, one line for each event, and the result.

export interface Story {
  name: string;
  algorithm: string;
  about: string;
  lasts_us: number;
  faults: string;
  breaks: string[];
}

export interface Algorithm {
  name: string;
  about: string;
  origin: string;
  promises: string[];
}

export interface RunHead {
  run: string;
  seed: number;
  story: Story;
  algorithm: Algorithm;
  processes: string[];
  contenders: number;
  faults: string;
  own_faults: boolean;
}

/** An event. Which of the fields it has depends on its kind; docs/explanation/lab.md lists them. */
export interface TraceEvent {
  at: number;
  event: string;
  text: string;
  who?: string;
  to?: string;
  from?: string;
  message?: number;
  kind?: string;
  routine?: boolean;
  arrives?: number[];
  name?: string;
  due?: number;
  token?: number | null;
  until?: number | null;
  taken?: boolean;
  highest?: number | null;
  promise?: string;
  action?: string;
  lasts?: number | null;
  contends?: boolean;
  state?: Record<string, unknown>;
}

export interface PromiseResult {
  promise: string;
  /** Its name in breach events; null if it is judged when the run ends. */
  key: string | null;
  kept: boolean;
  judged: number;
  broken_at_us: number | null;
  how: string | null;
}

export interface RunResult {
  promises: PromiseResult[];
  surprises: string[];
  stops: { event: number; says: string }[];
  tenures: number;
  vacant_us: number;
  double_us: number;
  doubles: number;
  writes_taken: number;
  writes_refused: number;
  stale_writes_taken: number;
  messages: number;
  routine_messages: number;
}

export interface Run {
  head: RunHead;
  events: TraceEvent[];
  result: RunResult;
}

/** Reads the lines of a run. A run that was cut off is an error. */
export function parseRun(text: string): Run {
  const lines = text.split("\n").filter((line) => line !== "");
  const [first, ...rest] = lines;
  const last = rest.pop();
  if (!first || !last) throw new Error("the run has no lines");
  const head = JSON.parse(first) as RunHead & { event: string };
  const result = JSON.parse(last) as RunResult & { event: string };
  if (head.event !== "run" || result.event !== "result") throw new Error("the run is not whole");
  return { head, events: rest.map((line) => JSON.parse(line) as TraceEvent), result };
}

const CLOCKWORK = new Set(["timer", "cancel", "ring", "believe", "notice"]);

/** Whether an event only keeps things going: heartbeats, renewals, alarms, writes that are taken as ever. */
export function isRoutine(run: Run, place: number, routine: ReadonlySet<number>): boolean {
  const event = run.events[place];
  if (!event) return true;
  if (CLOCKWORK.has(event.event)) return true;
  if (event.event === "send" || event.event === "receive") {
    return event.routine === true || (event.message !== undefined && routine.has(event.message));
  }
  return event.event === "write";
}

/** The numbers of messages that are sent all the time. */
export function routineMessages(run: Run): Set<number> {
  const routine = new Set<number>();
  for (const event of run.events) {
    if (event.event === "send" && event.routine && event.message !== undefined) routine.add(event.message);
  }
  return routine;
}
