// What gates are to admit and to refuse, by the tenures that the server remembers. Pure.

import { led, type Led } from "../lib/tenures";
import type { ElectionInfo } from "../lib/wire";

export interface Fence {
  name: string;
  /** The tenure whose writes are right now. */
  admits: Led | undefined;
  /** Tenures that ended without a word that their work did, the latest first. */
  doubtful: Led[];
  /** The largest token that was given. */
  highest: number;
}

export function fences(elections: readonly ElectionInfo[], now: number, first: (one: ElectionInfo) => number): Fence[] {
  const all = elections.map((election): Fence => {
    const list = led(election.tenures ?? [], now, first(election));
    const doubtful = list.filter((one) => !one.lasts && !one.stopped).reverse();
    return {
      name: election.name ?? "",
      admits: list.find((one) => one.lasts),
      doubtful,
      highest: Math.max(0, ...list.map((one) => one.token)),
    };
  });
  // What is in doubt comes first; else the order stays.
  return all.filter((one) => one.highest > 0).sort((a, b) => Number(b.doubtful.length > 0) - Number(a.doubtful.length > 0));
}
