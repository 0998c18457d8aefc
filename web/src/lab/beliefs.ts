// A run from far away: which process believed to lead when, when it was paused, when none led, what broke.

import type { Run } from "./trace";

export interface Span {
  from: number;
  to: number;
}

export interface Belief extends Span {
  who: string;
  ordinal: number;
  token: number | null;
}

export interface Beliefs {
  end: number;
  beliefs: Belief[];
  pauses: Record<string, Span[]>;
  deaths: Record<string, Span[]>;
  /** Times in which no process that ran believed to lead. */
  vacant: Span[];
  /** Times in which more than one did. */
  double: Span[];
  faults: { at: number; text: string; place: number }[];
  breaches: { at: number; text: string; place: number; promise: string }[];
  /** Where tenures begin. */
  elections: number[];
}

export function beliefsOf(run: Run): Beliefs {
  const end = run.head.story.lasts_us;
  const found: Beliefs = {
    end, beliefs: [], pauses: {}, deaths: {}, vacant: [], double: [], faults: [], breaches: [], elections: [],
  };
  const promised = new Set(run.result.promises.map(({ key }) => key));
  const open = new Map<string, Belief>();
  const paused = new Map<string, number>();
  const dead = new Map<string, number>();
  let vacantFrom: number | null = 0;
  let doubleFrom: number | null = null;
  const close = (who: string, at: number) => {
    const belief = open.get(who);
    if (belief) belief.to = at;
    open.delete(who);
  };
  const end_of = (list: Record<string, Span[]>, since: Map<string, number>, who: string, at: number) => {
    const from = since.get(who);
    if (from !== undefined) (list[who] ??= []).push({ from, to: at });
    since.delete(who);
  };
  const count = (at: number) => {
    const acting = [...open.keys()].filter((who) => !paused.has(who)).length;
    if (acting === 0) vacantFrom ??= at;
    else if (vacantFrom !== null) {
      if (at > vacantFrom) found.vacant.push({ from: vacantFrom, to: at });
      vacantFrom = null;
    }
    if (acting > 1) doubleFrom ??= at;
    else if (doubleFrom !== null) {
      found.double.push({ from: doubleFrom, to: at });
      doubleFrom = null;
    }
  };
  run.events.forEach((event, place) => {
    const who = event.who ?? "";
    switch (event.event) {
      case "lead": {
        close(who, event.at);
        const belief = { who, ordinal: found.beliefs.length, token: event.token ?? null, from: event.at, to: end };
        found.beliefs.push(belief);
        found.elections.push(place);
        open.set(who, belief);
        break;
      }
      case "step_down":
        close(who, event.at);
        break;
      case "crash":
        close(who, event.at);
        end_of(found.pauses, paused, who, event.at);
        dead.set(who, event.at);
        break;
      case "start":
        end_of(found.deaths, dead, who, event.at);
        return;
      case "pause":
        if (!paused.has(who)) paused.set(who, event.at);
        break;
      case "resume":
        end_of(found.pauses, paused, who, event.at);
        break;
      case "fault":
        found.faults.push({ at: event.at, text: event.text.replace(/^\*\* /, ""), place });
        return;
      case "breach":
        if (event.promise !== undefined && promised.has(event.promise)) {
          found.breaches.push({ at: event.at, text: event.text.replace(/^!! /, ""), place, promise: event.promise });
        }
        return;
      default:
        return;
    }
    count(event.at);
  });
  for (const who of [...paused.keys()]) end_of(found.pauses, paused, who, end);
  for (const who of [...dead.keys()]) end_of(found.deaths, dead, who, end);
  if (vacantFrom !== null && vacantFrom < end) found.vacant.push({ from: vacantFrom, to: end });
  if (doubleFrom !== null) found.double.push({ from: doubleFrom, to: end });
  return found;
}

/** "25.000 064 s": seconds, with the microseconds apart. */
export function stamp(micros: number): string {
  const whole = Math.floor(micros / 1_000_000);
  const rest = String(Math.floor(micros) % 1_000_000).padStart(6, "0");
  return `${whole}.${rest.slice(0, 3)} ${rest.slice(3)}`;
}

/** A span for people: "8.557 s", "64 µs". */
export function spanText(micros: number): string {
  if (micros >= 1_000_000) return `${Number((micros / 1_000_000).toFixed(micros >= 100_000_000 ? 0 : 2))} s`;
  if (micros >= 1_000) return `${Number((micros / 1_000).toFixed(1))} ms`;
  return `${Math.round(micros)} µs`;
}

/** A moment as fault scripts write it, to the microsecond. */
export function scriptTime(micros: number): string {
  const whole = Math.floor(micros);
  if (whole % 1_000_000 === 0) return `${whole / 1_000_000}s`;
  if (whole % 1_000 === 0) return whole < 1_000_000 ? `${whole / 1_000}ms` : `${whole / 1_000_000}s`;
  return whole < 1_000 ? `${whole}us` : `${(whole / 1_000_000).toFixed(6).replace(/0+$/, "")}s`;
}
