// The terms that a member saw, as bands. Pure.

import type { TermSeen } from "./doctor.svelte";

export interface TermBand {
  term: number;
  /** Empty while there was no raft leader. */
  leader: string;
  from: number;
  until: number;
  lasts: boolean;
}

const nobody = (id: string) => /^0*$/.test(id);

/** A band for each raft leader of each term, and for each time without one. */
export function bands(terms: readonly TermSeen[], now: number, nameOf: (id: string) => string): TermBand[] {
  return terms.map((seen, at) => {
    const next = terms[at + 1];
    return {
      term: seen.term,
      leader: nobody(seen.raft_leader) ? "" : nameOf(seen.raft_leader),
      from: seen.since_unix_ms,
      until: next ? Math.max(seen.since_unix_ms, next.since_unix_ms) : Math.max(now, seen.since_unix_ms),
      lasts: next === undefined,
    };
  });
}

/** The member that has seen the most: the one that has been up longest. */
export function longest<T extends { since_unix_ms: number }>(lists: readonly (readonly T[])[]): readonly T[] {
  return lists.reduce((best, one) => ((one[0]?.since_unix_ms ?? Infinity) < (best[0]?.since_unix_ms ?? Infinity) ? one : best), lists[0] ?? []);
}
