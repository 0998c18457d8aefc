// What happened, in sentences: made of the tenures that the elections remember. Pure.

import { duration } from "../lib/format";
import { isFault, led, reasonText, type EndMark, markOf } from "../lib/tenures";
import type { ElectionInfo } from "../lib/wire";

export interface Happening {
  key: string;
  at: number;
  name: string;
  kind: "began" | "ended" | "vacant";
  mark: EndMark | undefined;
  fault: boolean;
  who: string;
  token: number;
  ordinal: number;
  text: string;
}

export function happenings(elections: readonly ElectionInfo[], now: number, first: (one: ElectionInfo) => number): Happening[] {
  const all: Happening[] = [];
  for (const election of elections) {
    const name = election.name ?? "";
    const list = led(election.tenures ?? [], now, first(election));
    for (const [at, one] of list.entries()) {
      const before = list[at - 1];
      const next = list[at + 1];
      const common = { name, who: one.identity, token: one.token, ordinal: one.ordinal };
      const gap = before ? one.from - before.until : 0;
      const whom = before?.identity === one.identity ? "its last tenure" : before?.identity;
      const after = before ? `, ${gap <= 0 ? "at once" : duration(gap)} after ${whom}` : "";
      all.push({ ...common, key: `${name}+${one.token}`, at: one.from, kind: "began", mark: undefined, fault: false, text: `leads with token ${one.token}${after}` });
      if (one.lasts) continue;
      const reason = reasonText(one.reason, next?.identity);
      const confirmed = one.stopped ? "" : "; not confirmed to have stopped";
      all.push({
        ...common, key: `${name}-${one.token}`, at: one.until, kind: next ? "ended" : "vacant", mark: markOf(one.reason), fault: isFault(one.reason),
        text: `no longer leads: ${reason}${confirmed}${next ? "" : "; nobody has led since"}`,
      });
    }
  }
  // What ends comes before what begins at the same moment, so in a list from new to old behind it.
  return all.sort((a, b) => b.at - a.at || Number(a.kind !== "began") - Number(b.kind !== "began"));
}
