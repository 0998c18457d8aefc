// The state of a run at one moment: what the events up to there add up to.

import type { Run, TraceEvent } from "./trace";

export interface Process {
  name: string;
  contends: boolean;
  up: boolean;
  started: boolean;
  pauses: number;
  role: string;
  term: number | null;
  leader: string | null;
  token: number | null;
  /** What else it shows: keys, a lease, a ballot. */
  facts: Record<string, unknown>;
  /** The ordinal of the tenure that it believes in. */
  believes: number | null;
  until: number | null;
  /** Alarms: when each was set, and when it is due. */
  alarms: Record<string, [set: number, due: number]>;
}

/** A message under way. Nothing in `arrives`: it will be lost. */
export interface Flight {
  id: string;
  from: string;
  to: string;
  kind: string;
  sent: number;
  arrives: number[];
  /** The tenure whose write it is. */
  ordinal: number | null;
  routine: boolean;
}

export interface Write {
  at: number;
  from: string;
  token: number | null;
  taken: boolean;
  ordinal: number | null;
  /** Taken though a later leader has written before. */
  stale: boolean;
}

export interface World {
  /** How many events it is made of. */
  place: number;
  at: number;
  processes: Record<string, Process>;
  flights: Flight[];
  highest: number | null;
  writes: Write[];
  /** The latest tenure whose write was taken. */
  latestWrite: number;
  tenures: number;
  cuts: { from: string; to: string; until: number }[];
  broken: Record<string, { at: number; how: string; place: number }>;
}

/** How long a message that is lost is shown. */
const LOST_SHOWN_US = 400;
const WRITES_KEPT = 5;
export const STORAGE = "storage";

export function beginning(run: Run): World {
  const processes: Record<string, Process> = {};
  run.head.processes.forEach((name, at) => {
    processes[name] = {
      name, contends: at < run.head.contenders, up: false, started: false, pauses: 0, role: "", term: null, leader: null,
      token: null, facts: {}, believes: null, until: null, alarms: {},
    };
  });
  return {
    place: 0, at: 0, processes, flights: [], highest: null, writes: [], latestWrite: -1, tenures: 0, cuts: [], broken: {},
  };
}

/** A copy that can be changed without changing the other. */
export function copied(world: World): World {
  const processes: Record<string, Process> = {};
  for (const [name, process] of Object.entries(world.processes)) {
    processes[name] = { ...process, alarms: { ...process.alarms } };
  }
  return {
    ...world, processes, flights: [...world.flights], writes: [...world.writes], cuts: [...world.cuts], broken: { ...world.broken },
  };
}

/** Adds the next event. */
export function apply(world: World, event: TraceEvent): void {
  world.place += 1;
  world.at = event.at;
  const now = event.at;
  if (world.flights.length > 0) {
    world.flights = world.flights.filter(({ sent, arrives }) => (arrives.length > 0 ? Math.max(...arrives) : sent + LOST_SHOWN_US) >= now);
  }
  const process = event.who === undefined ? undefined : world.processes[event.who];
  switch (event.event) {
    case "start":
      if (process) Object.assign(process, { up: true, started: true, pauses: 0, alarms: {}, believes: null, until: null });
      break;
    case "crash":
      if (process) Object.assign(process, { up: false, pauses: 0, alarms: {}, believes: null, until: null, role: "" });
      break;
    case "pause":
      if (process) process.pauses += 1;
      break;
    case "resume":
      if (process) process.pauses = 0;
      break;
    case "lead":
      if (process) {
        Object.assign(process, { believes: world.tenures, token: event.token ?? null, until: event.until ?? null });
        world.tenures += 1;
      }
      break;
    case "believe":
      if (process) process.until = event.until ?? null;
      break;
    case "step_down":
      if (process) Object.assign(process, { believes: null, until: null });
      break;
    case "state":
      if (process && event.state) {
        const { role, term, leader, token, ...facts } = event.state;
        process.role = String(role ?? "");
        process.term = typeof term === "number" ? term : null;
        process.leader = typeof leader === "string" ? leader : null;
        if (typeof token === "number") process.token = token;
        process.facts = facts;
      }
      break;
    case "timer":
      if (process && event.name !== undefined && event.due !== undefined) process.alarms[event.name] = [now, event.due];
      break;
    case "cancel":
    case "ring":
      if (process && event.name !== undefined) delete process.alarms[event.name];
      break;
    case "send":
      world.flights.push({
        id: `m${event.message}`, from: event.who ?? "", to: event.to ?? "", kind: event.kind ?? "", sent: now,
        arrives: event.arrives ?? [], ordinal: null, routine: event.routine === true,
      });
      break;
    case "write":
      world.flights.push({
        id: `w${world.place}`, from: event.who ?? "", to: STORAGE, kind: "write", sent: now, arrives: event.arrives ?? [],
        ordinal: process?.believes ?? null, routine: true,
      });
      break;
    case "written":
      written(world, event);
      break;
    case "fault":
      fault(world, event);
      break;
    case "breach":
      if (event.promise !== undefined && !(event.promise in world.broken)) {
        world.broken[event.promise] = { at: now, how: event.text.replace(/^!! /, ""), place: world.place - 1 };
      }
      break;
  }
}

function written(world: World, event: TraceEvent): void {
  const from = event.from ?? "";
  // Whose it is was known when it left.
  const flight = world.flights.find((one) => one.kind === "write" && one.from === from && one.arrives.includes(event.at));
  const ordinal = flight?.ordinal ?? world.processes[from]?.believes ?? null;
  const taken = event.taken === true;
  const stale = taken && ordinal !== null && ordinal < world.latestWrite;
  if (taken && ordinal !== null) world.latestWrite = Math.max(world.latestWrite, ordinal);
  if (typeof event.highest === "number") world.highest = event.highest;
  world.writes.unshift({ at: event.at, from, token: event.token ?? null, taken, ordinal, stale });
  world.writes.length = Math.min(world.writes.length, WRITES_KEPT);
}

/** What a fault does to links. What it does to processes, the trace says by events of theirs. */
function fault(world: World, event: TraceEvent): void {
  const words = (event.action ?? "").split(" ");
  const until = typeof event.lasts === "number" ? event.at + event.lasts : Infinity;
  const all = [...Object.keys(world.processes), STORAGE];
  const named = (word: string | undefined): string[] => {
    if (word === "leader") return Object.values(world.processes).filter((one) => one.believes !== null).map((one) => one.name);
    if (word === "all") return Object.values(world.processes).filter((one) => one.contends).map((one) => one.name);
    return word === undefined ? [] : [word];
  };
  const cut = (from: string[], to: string[]) => {
    for (const a of from) for (const b of to) if (a !== b) world.cuts.push({ from: a, to: b, until });
  };
  const both = (ones: string[], others: string[]) => {
    cut(ones, others);
    cut(others, ones);
  };
  switch (words[0]) {
    case "heal":
      world.cuts = [];
      break;
    case "cut":
      if (words[2] === "->") cut(named(words[1]), named(words[3]));
      else both(named(words[1]), named(words[2]));
      break;
    case "isolate": {
      const alone = named(words[1]);
      both(alone, all.filter((name) => name !== STORAGE && !alone.includes(name)));
      break;
    }
    case "split": {
      const groups = words.slice(1).join(" ").split("|").map((group) => group.trim().split(" "));
      groups.forEach((group, at) => groups.slice(at + 1).forEach((other) => both(group, other)));
      break;
    }
  }
}

/** Cuts that are in force. */
export function cutsNow(world: World, at: number): World["cuts"] {
  return world.cuts.filter(({ until }) => until > at);
}

/** The processes that believe to lead and are not paused. */
export function believers(world: World): Process[] {
  return Object.values(world.processes).filter((one) => one.up && one.believes !== null);
}

const EVERY = 256;

/** States of a run at any place, without adding up everything anew. */
export class TraceIndex {
  private readonly kept: World[] = [];
  private last: World;

  constructor(readonly run: Run) {
    const world = beginning(run);
    this.kept.push(copied(world));
    for (const event of run.events) {
      apply(world, event);
      if (world.place % EVERY === 0) this.kept.push(copied(world));
    }
    this.last = copied(this.kept[0] as World);
  }

  get length(): number {
    return this.run.events.length;
  }

  /** The state after so many events. It must not be changed. */
  at(place: number): World {
    const wanted = Math.max(0, Math.min(this.length, Math.floor(place)));
    if (this.last.place === wanted) return this.last;
    const near = this.kept[Math.floor(wanted / EVERY)] as World;
    const goesOn = this.last.place <= wanted && this.last.place >= near.place;
    const world = copied(goesOn ? this.last : near);
    while (world.place < wanted) apply(world, this.run.events[world.place] as TraceEvent);
    this.last = world;
    return world;
  }

  /** How many events there are up to a moment, itself included. */
  placeAt(moment: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.run.events[middle] as TraceEvent).at <= moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
