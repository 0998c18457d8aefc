// A day in some two hundred pixels. To scale, but a gap is never hidden under a pixel, and what is closer than two
// pixels is one mark. Pure.

import type { Gap, Led } from "./tenures";

/** A gap is at least this wide. */
const GAP_PX_MIN = 3;
/** Changes that are closer are drawn as one. */
const MERGE_PX = 2;

export type StripPart =
  | { kind: "led"; x: number; width: number; ordinal: number }
  | { kind: "vacant" | "frozen" | "merged"; x: number; width: number };

export function strip(list: readonly Led[], gaps: readonly Gap[], from: number, until: number, width: number): StripPart[] {
  const scale = width / (until - from);
  const at = (ms: number) => Math.min(width, Math.max(0, (ms - from) * scale));
  const parts: StripPart[] = [];
  for (const one of list) {
    if (one.until < from && !one.lasts) continue;
    const end = one.lasts ? width : at(one.until);
    // What lasts is seen, however short it is yet.
    const x = one.lasts ? Math.min(at(one.from), width - MERGE_PX) : at(one.from);
    const last = parts.at(-1);
    if (end - x < MERGE_PX && !one.lasts) {
      // Too short to be told from its neighbours.
      if (last?.kind === "merged" && x - (last.x + last.width) < MERGE_PX) last.width = Math.max(last.width, end - last.x);
      else parts.push({ kind: "merged", x, width: Math.max(end - x, 1) });
      continue;
    }
    // A hair of the ground between two leaders.
    const inset = x > 0 ? 0.5 : 0;
    parts.push({ kind: "led", x: x + inset, width: Math.max(end - x - inset, 1), ordinal: one.ordinal });
  }
  let previous: { x: number; width: number; kind: string } | undefined;
  for (const gap of gaps) {
    if (gap.until < from) continue;
    const kind = gap.frozen ? "frozen" : "vacant";
    const x = at(gap.from);
    const part = { kind, x: 0, width: Math.max(at(gap.until) - x, GAP_PX_MIN) } as const;
    const placed = { ...part, x: Math.min(x, width - part.width) };
    if (previous && previous.kind === kind && placed.x - (previous.x + previous.width) < MERGE_PX) {
      previous.width = Math.max(previous.width, placed.x + placed.width - previous.x);
      continue;
    }
    parts.push(placed);
    previous = placed;
  }
  return parts;
}
