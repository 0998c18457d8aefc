import { describe, expect, test } from "vitest";
import { strip } from "../src/lib/strip";
import { gaps, led, type Led } from "../src/lib/tenures";
import { cardPlace, following, GAP_PX_MIN, LANE_H, layout, pan, zoom, type Window } from "../src/lib/timeline";
import type { Tenure } from "../src/lib/wire";

const NOW = 1_000_000;
const WIDTH = 1000;
const VIEW: Window = { from: 0, until: NOW };

function story(): Led[] {
  const tenures: Tenure[] = [
    { identity: "a", token: "3", from_unix_ms: "1000", until_unix_ms: "400000", reason: "CONNECTION_LOST" },
    { identity: "b", token: "9", from_unix_ms: "400064", until_unix_ms: "700000", reason: "TRANSFERRED" },
    { identity: "a", token: "12", from_unix_ms: "700040", reason: "TENURE_LASTS" },
  ];
  return led(tenures, NOW);
}

function drawn(view = VIEW, list = story()) {
  return layout(["a", "b"], list, gaps(list, NOW, false), [{ identity: "b", from: 800_000, until: NOW }], view, NOW, WIDTH);
}

describe("the timeline", () => {
  test("draws each tenure to scale, in the lane of its identity and in the line of all", () => {
    const { lanes, led: all } = drawn();
    expect(all.map((bar) => bar.label)).toEqual(["3", "9", "12"]);
    expect(lanes.map((lane) => lane.bars.map((bar) => bar.led.token))).toEqual([[3, 12], [9]]);
    expect(all[0]?.x).toBeCloseTo(1);
    expect(all[0]?.width).toBeCloseTo(399);
    expect(lanes[1]!.y - lanes[0]!.y).toBe(LANE_H);
  });

  test("never hides a gap under a pixel, and prints how long it was", () => {
    const { bands } = drawn();
    expect(bands.map((band) => [band.width, band.label])).toEqual([[GAP_PX_MIN, "0.06 s"], [GAP_PX_MIN, "0.04 s"]]);
  });

  test("lets no two labels of gaps run into each other", () => {
    const tenures: Tenure[] = Array.from({ length: 30 }, (_, at) => ({
      identity: "a", token: String(at), from_unix_ms: String(at * 3000), until_unix_ms: String(at * 3000 + 2000), reason: "EXPIRED" as const,
    }));
    const list = led(tenures, NOW);
    const bands = layout(["a"], list, gaps(list, NOW, false), [], VIEW, NOW, WIDTH).bands;
    const placed = bands.filter((band) => band.labelX !== undefined);
    expect(placed.length).toBeGreaterThan(1);
    expect(placed.length).toBeLessThan(bands.length);
    for (const [at, band] of placed.entries()) {
      const next = placed[at + 1];
      if (next) expect(next.labelX! - band.labelX!).toBeGreaterThan(30);
    }
  });

  test("marks the ends, and drops a line to the lane of the next", () => {
    const { led: all, drops } = drawn();
    expect(all.map((bar) => [bar.mark, bar.fault])).toEqual([["killed", true], ["handed", false], [undefined, false]]);
    expect(drops).toHaveLength(2);
    expect(drops[0]!.toY - drops[0]!.fromY).toBe(LANE_H);
  });

  test("draws the window only", () => {
    const { led: all, lanes } = drawn({ from: 500_000, until: 600_000 });
    expect(all.map((bar) => bar.led.token)).toEqual([9]);
    expect(all[0]?.x).toBe(-1);
    expect(all[0]?.width).toBe(WIDTH + 2);
    expect(all[0]?.mark).toBeUndefined();
    expect(lanes[1]?.waits).toEqual([]);
  });

  test("shows a wait as a line with a ring where it began", () => {
    expect(drawn().lanes[1]?.waits).toEqual([{ x: 800, width: 200, ring: true }]);
    expect(drawn({ from: 900_000, until: NOW }).lanes[1]?.waits[0]?.ring).toBe(false);
  });
});

describe("the window", () => {
  test("zooms around a moment that stays", () => {
    const zoomed = zoom(VIEW, 250_000, 0.5);
    expect(zoomed).toEqual({ from: 125_000, until: 625_000 });
    expect(zoom(zoomed, 250_000, 2)).toEqual(VIEW);
    expect(zoom(VIEW, 0, 1e-9).until).toBe(2000);
  });

  test("moves, and follows now", () => {
    expect(pan(VIEW, 10)).toEqual({ from: 10, until: NOW + 10 });
    const view = following(100_000, NOW);
    expect(view.until - view.from).toBeCloseTo(100_000);
    expect(view.until).toBeGreaterThan(NOW);
  });
});

test("a card stands beside its bar, never over it, inside its panel", () => {
  const card = { width: 300, height: 150 };
  const panel = { width: 900, height: 400 };
  for (const x of [-50, 0, 400, 890]) {
    for (const y of [0, 100, 200, 360]) {
      const bar = { x, y, width: 40, height: 20 };
      const place = cardPlace(bar, card, panel);
      expect(place.x).toBeGreaterThanOrEqual(0);
      expect(place.x + card.width).toBeLessThanOrEqual(panel.width);
      expect(place.y >= bar.y + bar.height || place.y + card.height <= bar.y, `${x} ${y}`).toBe(true);
    }
  }
});

describe("a day in a strip", () => {
  test("is to scale, keeps gaps visible and merges what is too close", () => {
    const parts = strip(story(), gaps(story(), NOW, false), 0, NOW, 200);
    expect(parts.filter((part) => part.kind === "led")).toHaveLength(3);
    const holes = parts.filter((part) => part.kind === "vacant");
    expect(holes.every((part) => part.width >= 3)).toBe(true);
    const tenures: Tenure[] = Array.from({ length: 30 }, (_, at) => ({
      identity: "a", token: String(at), from_unix_ms: String(at * 100), until_unix_ms: String(at * 100 + 100), reason: "RESIGNED" as const,
    }));
    const merged = strip(led(tenures, NOW), [], 0, NOW, 200);
    expect(merged).toHaveLength(1);
    expect(merged[0]?.kind).toBe("merged");
  });
});
