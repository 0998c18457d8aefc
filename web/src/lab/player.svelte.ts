// What is shown of one run, or of two on one clock: a moment, whether it plays, how fast.

import { type Beliefs, beliefsOf } from "./beliefs";
import { type Run, type TraceEvent, isRoutine, routineMessages } from "./trace";
import { TraceIndex, type World } from "./world";

/** A run with all that is computed from it once. */
export interface Loaded {
  run: Run;
  index: TraceIndex;
  beliefs: Beliefs;
  /** The places of events that are not routine. */
  shown: number[];
}

export function loaded(run: Run): Loaded {
  const routine = routineMessages(run);
  const shown = run.events.map((_, place) => place).filter((place) => !isRoutine(run, place, routine));
  return { run, index: new TraceIndex(run), beliefs: beliefsOf(run), shown };
}

/** An event that playing stops at. */
interface Mark {
  at: number;
  of: number;
  place: number;
}

export type Pace = "event" | "time";
export const SPEEDS = [0.25, 0.5, 1, 2, 4] as const;

/** How long an event takes on the screen. */
const EVENT_MS = 420;
/** Of a tour: the longest way to a stop is so many events; what is before them is passed over. */
const TOUR_EVENTS = 14;
const READ_MS = 2_200;
const READ_MS_A_LETTER = 42;

const calm = () => typeof matchMedia !== "undefined" && matchMedia("(prefers-reduced-motion: reduce)").matches;

export class Player {
  readonly runs: Loaded[];
  private readonly marks: Mark[];
  /** How many marks are past. */
  private passed = $state(0);
  moment = $state(0);
  playing = $state(false);
  speed = $state<number>(1);
  pace = $state<Pace>("event");
  /** The stop of the tour that is shown; null outside of a tour. */
  stop = $state<number | null>(null);
  private segment = 0;
  private waited = 0;
  private frame = 0;
  private before = 0;

  constructor(runs: Loaded[], moment = 0) {
    this.runs = runs;
    this.marks = runs
      .flatMap(({ run, shown }, of) => shown.map((place) => ({ at: (run.events[place] as TraceEvent).at, of, place })))
      .sort((one, other) => one.at - other.at || one.of - other.of || one.place - other.place);
    this.seek(moment);
  }

  get main(): Loaded {
    return this.runs[0] as Loaded;
  }

  get end(): number {
    return Math.max(...this.runs.map(({ beliefs }) => beliefs.end));
  }

  get stops(): { event: number; says: string }[] {
    return this.main.run.result.stops;
  }

  get caption(): string {
    return this.stop === null ? "" : (this.stops[this.stop]?.says ?? "");
  }

  /** How many events of a run are past. */
  placeOf(of: number): number {
    const { index } = this.runs[of] as Loaded;
    let marked = 0;
    for (let at = this.passed - 1; at >= 0; at -= 1) {
      const mark = this.marks[at] as Mark;
      if (mark.of === of) {
        marked = mark.place + 1;
        break;
      }
    }
    return Math.max(marked, index.placeAt(this.moment - 1));
  }

  world(of = 0): World {
    return (this.runs[of] as Loaded).index.at(this.placeOf(of));
  }

  /** The event that was last, and is not routine. */
  get last(): { event: TraceEvent; place: number } | null {
    const mark = this.marks[this.passed - 1];
    const event = mark && mark.of === 0 ? this.main.run.events[mark.place] : undefined;
    return mark && event ? { event, place: mark.place } : null;
  }

  seek(moment: number): void {
    this.moment = Math.max(0, Math.min(this.end, moment));
    let low = 0;
    let high = this.marks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.marks[middle] as Mark).at <= this.moment) low = middle + 1;
      else high = middle;
    }
    this.passed = low;
    this.segment = 0;
  }

  /** Shows the run right after an event of it. */
  seekEvent(place: number): void {
    const event = this.main.run.events[place];
    if (!event) return;
    this.seek(event.at);
    const found = this.marks.findIndex((mark) => mark.of === 0 && mark.place >= place);
    if (found >= 0) this.passed = found + 1;
    const mark = this.marks[found];
    if (mark) this.moment = mark.at;
  }

  step(by: 1 | -1): void {
    this.playing = false;
    const to = Math.max(0, Math.min(this.marks.length, this.passed + by));
    if (by === 1 && this.passed === this.marks.length) this.moment = this.end;
    this.passed = to;
    this.moment = to === 0 ? 0 : (this.marks[to - 1] as Mark).at;
    this.segment = 0;
  }

  shift(micros: number): void {
    this.playing = false;
    this.seek(this.moment + micros);
  }

  /** To the next fault, election or breach, or the one before. */
  jump(by: 1 | -1, kinds: ("fault" | "breach" | "election")[] = ["fault", "breach"]): void {
    this.playing = false;
    const { faults, breaches, elections } = this.main.beliefs;
    const places = [
      ...(kinds.includes("fault") ? faults.map(({ place }) => place) : []),
      ...(kinds.includes("breach") ? breaches.map(({ place }) => place) : []),
      ...(kinds.includes("election") ? elections : []),
    ].sort((one, other) => one - other);
    const here = (this.last?.place ?? -1) as number;
    const next = by === 1 ? places.find((place) => place > here) : places.reverse().find((place) => place < here);
    if (next !== undefined) this.seekEvent(next);
    else this.seek(by === 1 ? this.end : 0);
  }

  toggle(): void {
    if (this.playing) {
      this.pause();
      return;
    }
    if (this.moment >= this.end) this.seek(0);
    this.play();
  }

  play(): void {
    this.playing = true;
    this.before = 0;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  pause(): void {
    this.playing = false;
    cancelAnimationFrame(this.frame);
  }

  tour(): void {
    this.stop = -1;
    this.seek(0);
    this.toStop(0);
    this.play();
  }

  endTour(): void {
    this.stop = null;
  }

  /** Of a tour: to that stop, by the events right before it. */
  toStop(stop: number): void {
    const wanted = this.stops[stop];
    if (!wanted) return;
    this.stop = stop;
    this.waited = 0;
    this.seekEvent(wanted.event);
  }

  private tick(now: number): void {
    if (!this.playing) return;
    const passed = this.before === 0 ? 16 : Math.min(100, now - this.before);
    this.before = now;
    if (this.stop !== null) this.tourFor(passed);
    else if (this.pace === "time") this.timeFor(passed);
    else this.eventsFor(passed * this.speed);
    if (this.playing) this.frame = requestAnimationFrame((next) => this.tick(next));
  }

  private timeFor(ms: number): void {
    this.seek(this.moment + ms * 1000 * this.speed);
    if (this.moment >= this.end) this.pause();
  }

  /** Goes on from event to event; between two of them what is under way moves. */
  private eventsFor(ms: number, limit = this.marks.length): void {
    const next = this.marks[this.passed];
    if (!next || this.passed >= limit) {
      if (!next) {
        this.moment = this.end;
        this.pause();
      }
      return;
    }
    this.segment += ms / EVENT_MS;
    if (this.segment >= 1 || calm()) {
      if (this.segment < 1) return;
      this.segment = 0;
      this.passed += 1;
      this.moment = next.at;
      return;
    }
    const from = this.passed === 0 ? 0 : (this.marks[this.passed - 1] as Mark).at;
    this.moment = from + (next.at - from) * this.segment;
  }

  private tourFor(ms: number): void {
    const stop = this.stop ?? 0;
    const at = this.stops[stop];
    const next = this.stops[stop + 1];
    if (!at) return;
    this.waited += ms * this.speed;
    if (this.waited < READ_MS + at.says.length * READ_MS_A_LETTER) return;
    if (!next) {
      this.pause();
      return;
    }
    const goal = this.marks.findIndex((mark) => mark.of === 0 && mark.place >= next.event);
    if (goal < 0 || this.passed > goal) {
      this.toStop(stop + 1);
      return;
    }
    if (goal - this.passed > TOUR_EVENTS) {
      this.passed = goal - TOUR_EVENTS;
      this.moment = (this.marks[this.passed - 1] as Mark | undefined)?.at ?? 0;
      this.segment = 0;
    }
    this.eventsFor(ms * this.speed * 2);
    if (this.passed > goal) this.toStop(stop + 1);
  }
}
