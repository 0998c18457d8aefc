import { describe, expect, test } from "vitest";
import { changes, colour, gaps, lanes, led, Lifetimes, markOf, Ordinals, vacancy } from "../src/lib/tenures";
import type { EndReason, Tenure } from "../src/lib/wire";

const NOW = 100_000;

function tenure(identity: string, token: number, from: number, until?: number, reason: EndReason = "RESIGNED"): Tenure {
  const end = until === undefined ? { reason: "TENURE_LASTS" as const } : { reason, until_unix_ms: String(until) };
  return { identity, token: String(token), from_unix_ms: String(from), ...end };
}

const STORY = [
  tenure("a", 3, 1000, 5000, "EXPIRED"),
  tenure("b", 9, 9000, 20_000, "FROZEN"),
  tenure("a", 14, 50_000, 60_000, "CONNECTION_LOST"),
  tenure("c", 15, 60_064),
];

describe("tenures", () => {
  test("last until now, and know how long nobody led behind them", () => {
    const list = led(STORY, NOW);
    expect(list.map((one) => one.until)).toEqual([5000, 20_000, 60_000, NOW]);
    expect(list.map((one) => one.vacantMs)).toEqual([4000, 30_000, 64, undefined]);
    expect(list.at(-1)?.lasts).toBe(true);
  });

  test("that end before they begin, by clocks that differ, have no length", () => {
    expect(led([tenure("a", 1, 5000, 4000)], NOW)[0]).toMatchObject({ from: 5000, until: 5000 });
  });

  test("have gaps between them, of which some are on purpose", () => {
    const found = gaps(led(STORY, NOW), NOW, false);
    expect(found.map(({ from, until, frozen }) => [from, until, frozen])).toEqual([
      [5000, 9000, false],
      [20_000, 50_000, true],
      [60_000, 60_064, false],
    ]);
  });

  test("leave a gap that lasts if nobody follows", () => {
    const found = gaps(led(STORY.slice(0, 1), NOW), NOW, false);
    expect(found).toMatchObject([{ from: 5000, until: NOW, lasts: true, frozen: false }]);
    expect(gaps(led(STORY.slice(0, 1), NOW), NOW, true)).toMatchObject([{ frozen: true }]);
  });

  test("lie in lanes by the latest tenure, then those that wait", () => {
    expect(lanes(led(STORY, NOW), ["d", "a", "e"])).toEqual(["c", "a", "b", "d", "e"]);
  });

  test("count what nobody led, but not what an operator froze", () => {
    const list = led(STORY, NOW);
    const all = vacancy(list, gaps(list, NOW, false), 0, NOW);
    expect(all.ms).toBe(4064);
    expect(all.share).toBeCloseTo(1 - 4064 / 99_000);
    expect(vacancy(list, gaps(list, NOW, false), 7000, NOW).ms).toBe(2064);
    expect(vacancy([], [], 0, NOW)).toEqual({ ms: 0, share: 1 });
  });

  test("count changes, and the first of all is none", () => {
    const list = led(STORY, NOW);
    expect(changes(list, 0, false)).toBe(3);
    expect(changes(list, 0, true)).toBe(4);
    expect(changes(list, 40_000, false)).toBe(2);
  });

  test("keep their ordinals when the server forgets the oldest", () => {
    const ordinals = new Ordinals();
    expect(ordinals.first("x", STORY)).toBe(0);
    expect(ordinals.first("x", STORY.slice(2))).toBe(2);
    expect(ordinals.first("x", [...STORY.slice(3), tenure("d", 20, 70_000)])).toBe(3);
    expect(ordinals.first("x", [tenure("d", 20, 70_000)])).toBe(4);
    expect(ordinals.first("y", STORY.slice(2))).toBe(0);
  });
});

test("colours follow ordinals, neighbours differ", () => {
  expect([0, 5, 6, 7, -1].map(colour)).toEqual([0, 5, 0, 1, 5]);
});

test("every reason of an end has a mark", () => {
  expect(markOf("TENURE_LASTS")).toBeUndefined();
  expect(markOf("EXPIRED")).toBe("expired");
  expect(markOf("CONNECTION_LOST")).toBe("killed");
  expect(markOf("FROZEN")).toBe("evicted");
  expect(markOf("PREEMPTED")).toBe("handed");
});

test("a leader that expired had been silent for its time to live, where that is known", () => {
  const lifetimes = new Lifetimes();
  lifetimes.note("x", 3, 2500);
  lifetimes.note("x", 9, 2500);
  lifetimes.note("y", 14, 2500);
  const list = lifetimes.apply("x", led(STORY, NOW));
  expect(list.map((one) => one.silentFrom)).toEqual([2500, undefined, undefined, undefined]);
});
