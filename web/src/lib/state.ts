// The state of an election in one word, as it is shown.

import type { ElectionState } from "./wire";

export interface StateLook {
  word: string;
  glyph: string;
  look: "plain" | "dashed" | "inverted" | "soft" | "solid";
  what: string;
}

export const STATES: Record<ElectionState, StateLook> = {
  STATE_STEADY: { word: "steady", glyph: "steady", look: "plain", what: "one leader, at most 3 changes in 24 h" },
  STATE_CONTESTED: { word: "contested", glyph: "contested", look: "plain", what: "4 changes in 24 h or more" },
  STATE_VACANT: { word: "vacant", glyph: "vacant", look: "solid", what: "nobody leads" },
  STATE_FLAPPING: { word: "flapping", glyph: "flapping", look: "soft", what: "6 changes in 10 min or more" },
  STATE_FROZEN: { word: "frozen", glyph: "frozen", look: "inverted", what: "an operator lets nobody lead" },
  STATE_HANDING_OVER: { word: "handing over", glyph: "handed", look: "dashed", what: "the leader makes room for a successor" },
  STATE_IDLE: { word: "idle", glyph: "vacant", look: "plain", what: "given up in order, and no candidate" },
};

/** In the order of the filters. */
export const STATE_ORDER: ElectionState[] = [
  "STATE_STEADY", "STATE_CONTESTED", "STATE_VACANT", "STATE_FLAPPING", "STATE_FROZEN", "STATE_HANDING_OVER", "STATE_IDLE",
];

export const lookOf = (state: ElectionState | undefined): StateLook => STATES[state ?? "STATE_IDLE"];

/** `billing/` and `invoice-run` of `billing/invoice-run`. */
export function splitName(name: string): [string, string] {
  const at = name.lastIndexOf("/") + 1;
  return [name.slice(0, at), name.slice(at)];
}
