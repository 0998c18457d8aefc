// What a list of tenures says: who led when, what ended it, and when nobody did. Pure.

import { num, type EndReason, type Tenure } from "./wire";

/** How a tenure ended, as it is drawn. */
export type EndMark = "resigned" | "handed" | "evicted" | "expired" | "killed";

export interface Led {
  identity: string;
  token: number;
  /** Its ordinal among the tenures that are known, which chooses its colour. */
  ordinal: number;
  from: number;
  /** Now, if it lasts. */
  until: number;
  lasts: boolean;
  reason: EndReason;
  /** The process confirmed that its work had ended. */
  stopped: boolean;
  /** From when on it gave no sign of life, if that is known. */
  silentFrom?: number;
  /** How long nobody led then; not known if nobody has led since. */
  vacantMs?: number;
}

export interface Gap {
  from: number;
  until: number;
  lasts: boolean;
  /** On purpose: an operator froze the name. */
  frozen: boolean;
  after: Led;
}

export const COLOURS = 6;

/** Tokens skip, so the colour follows the ordinal. */
export function colour(ordinal: number): number {
  return ((ordinal % COLOURS) + COLOURS) % COLOURS;
}

export function markOf(reason: EndReason): EndMark | undefined {
  switch (reason) {
    case "TENURE_LASTS":
      return undefined;
    case "RESIGNED":
    case "CLOSED":
    case "UNHEALTHY":
      return "resigned";
    case "TRANSFERRED":
    case "PREEMPTED":
      return "handed";
    case "EVICTED":
    case "FROZEN":
    case "REVOKED":
    case "DELETED":
      return "evicted";
    case "EXPIRED":
      return "expired";
    case "CONNECTION_LOST":
      return "killed";
  }
}

/** Whether an end is bad news: the process did not end its tenure itself, and no operator did. */
export function isFault(reason: EndReason): boolean {
  return reason === "EXPIRED" || reason === "CONNECTION_LOST";
}

/** The end of a tenure in words. */
export function reasonText(reason: EndReason, next?: string): string {
  switch (reason) {
    case "TENURE_LASTS":
      return "leads now";
    case "RESIGNED":
      return "resigned";
    case "CLOSED":
      return "session closed";
    case "EXPIRED":
      return "expired: no renewal in time";
    case "REVOKED":
      return "session revoked";
    case "CONNECTION_LOST":
      return "killed: its connection closed";
    case "EVICTED":
      return "evicted by an operator";
    case "TRANSFERRED":
      return next ? `handed over to ${next}` : "handed over";
    case "PREEMPTED":
      return next ? `made room for ${next}, of higher priority` : "made room for a higher priority";
    case "UNHEALTHY":
      return "reported itself unhealthy";
    case "FROZEN":
      return "frozen by an operator";
    case "DELETED":
      return "key deleted by hand";
  }
}

/** Remembers the ordinals of tenures: the server forgets the oldest, and colours must not change when it does. */
export class Ordinals {
  #known = new Map<string, { token: number; ordinal: number }>();

  /** The ordinal of the first of these. */
  first(name: string, tenures: readonly Tenure[]): number {
    const known = this.#known.get(name);
    const at = known ? tenures.findIndex((tenure) => num(tenure.token) === known.token) : -1;
    const first = known && at >= 0 ? known.ordinal - at : 0;
    const last = tenures.length - 1;
    if (last >= 0) this.#known.set(name, { token: num(tenures[last]?.token), ordinal: first + last });
    return first;
  }
}

/** Times to live of leaders that this page has seen lead. The server does not remember them. */
export class Lifetimes {
  #known = new Map<string, number>();

  note(name: string, token: number, ttlMs: number): void {
    if (ttlMs > 0) this.#known.set(`${token} ${name}`, ttlMs);
  }

  /** A tenure that expired had been silent for its time to live. */
  apply(name: string, list: Led[]): Led[] {
    for (const one of list) {
      const ttl = this.#known.get(`${one.token} ${name}`);
      if (one.reason === "EXPIRED" && ttl !== undefined) one.silentFrom = Math.max(one.from, one.until - ttl);
    }
    return list;
  }
}

/** Tenures, oldest first, as they are drawn. */
export function led(tenures: readonly Tenure[], now: number, firstOrdinal = 0): Led[] {
  const list = tenures.map((tenure, at): Led => {
    const reason = tenure.reason ?? "TENURE_LASTS";
    const lasts = reason === "TENURE_LASTS";
    const from = num(tenure.from_unix_ms);
    return {
      identity: tenure.identity ?? "",
      token: num(tenure.token),
      ordinal: firstOrdinal + at,
      from,
      until: lasts ? Math.max(now, from) : Math.max(num(tenure.until_unix_ms), from),
      lasts,
      reason,
      stopped: tenure.stopped ?? false,
    };
  });
  for (const [at, one] of list.entries()) {
    const next = list[at + 1];
    if (next) one.vacantMs = Math.max(0, next.from - one.until);
  }
  return list;
}

/** The times in which nobody led, between tenures and behind the last. */
export function gaps(list: readonly Led[], now: number, frozenNow: boolean): Gap[] {
  const found: Gap[] = [];
  for (const [at, one] of list.entries()) {
    if (one.lasts) continue;
    const next = list[at + 1];
    const until = next ? next.from : now;
    if (until <= one.until) continue;
    const frozen = one.reason === "FROZEN" || (next === undefined && frozenNow);
    found.push({ from: one.until, until, lasts: next === undefined, frozen, after: one });
  }
  return found;
}

/** Identities in order of their latest tenure. */
export function lanes(list: readonly Led[], waiting: readonly string[]): string[] {
  const seen = new Set<string>();
  for (const one of [...list].reverse()) seen.add(one.identity);
  for (const identity of waiting) seen.add(identity);
  return [...seen];
}

/** How long nobody led in a window, what was ordered by operators not counted, and the share that was led. */
export function vacancy(list: readonly Led[], found: readonly Gap[], from: number, until: number): { ms: number; share: number } {
  const first = list[0];
  if (!first) return { ms: 0, share: 1 };
  const begin = Math.max(from, first.from);
  const within = (gap: Gap) => Math.max(0, Math.min(gap.until, until) - Math.max(gap.from, begin));
  const ms = found.filter((gap) => !gap.frozen).reduce((sum, gap) => sum + within(gap), 0);
  const span = until - begin;
  return { ms, share: span > 0 ? 1 - ms / span : 1 };
}

/** How often the leader changed since a moment. The first tenure of all is no change. */
export function changes(list: readonly Led[], since: number, forgotten: boolean): number {
  return list.filter((one, at) => one.from >= since && (at > 0 || forgotten)).length;
}
