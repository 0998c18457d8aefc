import { describe, expect, it } from "vitest";
import { beliefsOf, scriptTime, spanText, stamp } from "../src/lab/beliefs";
import { layout, HEIGHT, WIDTH } from "../src/lab/layout";
import { type Run, type TraceEvent, isRoutine, parseRun, routineMessages } from "../src/lab/trace";
import { TraceIndex, apply, beginning, copied, cutsNow } from "../src/lab/world";

/** Small and fast: the same numbers for the same seed. */
function dice(seed: number): (below: number) => number {
  let state = seed * 2_654_435_761 + 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return Math.abs(state) % below;
  };
}

const NAMES = ["a", "b", "c", "s1"];

function drawn(seed: number, length: number): Run {
  const draw = dice(seed);
  const events: TraceEvent[] = [];
  let at = 0;
  for (let number = 0; number < length; number += 1) {
    at += draw(400);
    const who = NAMES[draw(4)] as string;
    const to = NAMES[draw(4)] as string;
    const name = ["again", "renew"][draw(2)] as string;
    const make: (() => TraceEvent)[] = [
      () => ({ at, event: "start", who, text: "starts" }),
      () => ({ at, event: "crash", who, text: "is dead" }),
      () => ({ at, event: "pause", who, text: "is paused" }),
      () => ({ at, event: "resume", who, text: "resumes" }),
      () => ({ at, event: "lead", who, text: "leads", token: number, until: at + 500 }),
      () => ({ at, event: "step_down", who, text: "stops" }),
      () => ({ at, event: "timer", who, text: "sets", name, due: at + draw(900) }),
      () => ({ at, event: "ring", who, text: "hears", name }),
      () => ({ at, event: "send", who, to, text: "says", message: number, kind: "k", routine: draw(2) === 0, arrives: draw(3) === 0 ? [] : [at + draw(500)] }),
      () => ({ at, event: "write", who, to: "storage", text: "writes", arrives: [at + 10] }),
      () => ({ at, event: "written", who: "storage", from: who, text: "takes", taken: draw(2) === 0, highest: number }),
      () => ({ at, event: "fault", text: "** cut", action: `cut ${who} ${to}`, lasts: draw(2_000) }),
      () => ({ at, event: "fault", text: "** split", action: "split a b | c s1" }),
      () => ({ at, event: "state", who, text: "is", state: { role: "leader", term: draw(5), leader: to, token: null, keys: [number] } }),
      () => ({ at, event: "breach", text: "!! broken", promise: `p${draw(3)}` }),
    ];
    events.push((make[draw(make.length)] as () => TraceEvent)());
  }
  const story = { name: "drawn", algorithm: "x", about: "", lasts_us: at + 1, faults: "", breaks: [] };
  const result = {
    promises: [{ promise: "P", key: "p0", kept: false, judged: 1, broken_at_us: 1, how: "" }], surprises: [], stops: [], tenures: 0,
    vacant_us: 0, double_us: 0, doubles: 0, writes_taken: 0, writes_refused: 0, stale_writes_taken: 0, messages: 0, routine_messages: 0,
  };
  const algorithm = { name: "x", about: "", origin: "", promises: [] };
  const head = { run: "r", seed, story, algorithm, processes: NAMES, contenders: 3, faults: "", own_faults: true };
  return { head, events, result };
}

describe("trace index", () => {
  it("has at every place the sum of all events before", () => {
    for (let seed = 1; seed <= 12; seed += 1) {
      const run = drawn(seed, 1500);
      const index = new TraceIndex(run);
      const draw = dice(seed + 100);
      const states = [beginning(run)];
      for (const event of run.events) {
        const next = copied(states[states.length - 1] as ReturnType<typeof beginning>);
        apply(next, event);
        states.push(next);
      }
      for (let look = 0; look < 120; look += 1) {
        const place = draw(run.events.length + 1);
        expect(index.at(place)).toEqual(states[place]);
      }
      for (const place of [0, 1, 255, 256, 257, 256, 3, run.events.length]) expect(index.at(place)).toEqual(states[place]);
    }
  });

  it("finds the place of a moment", () => {
    const run = drawn(3, 800);
    const index = new TraceIndex(run);
    for (const moment of [0, 1, 777, 40_000, 1e9]) {
      expect(index.placeAt(moment)).toBe(run.events.filter(({ at }) => at <= moment).length);
    }
  });

  it("scrubs through 50,000 events within a frame a step", () => {
    const index = new TraceIndex(drawn(9, 50_000));
    const draw = dice(4);
    let slowest = 0;
    for (let look = 0; look < 300; look += 1) {
      const began = performance.now();
      index.at(draw(50_000));
      slowest = Math.max(slowest, performance.now() - began);
    }
    // Printed, not judged: the machine decides.
    console.log(`slowest of 300 jumps: ${slowest.toFixed(1)} ms`);
    expect(index.at(50_000).place).toBe(50_000);
  });
});

describe("world", () => {
  it("knows whose write it is, and when it comes too late", () => {
    const run = drawn(1, 0);
    const world = beginning(run);
    const all: TraceEvent[] = [
      { at: 0, event: "lead", who: "a", text: "", token: null },
      { at: 1, event: "write", who: "a", to: "storage", text: "", arrives: [9] },
      { at: 2, event: "lead", who: "b", text: "", token: null },
      { at: 3, event: "write", who: "b", to: "storage", text: "", arrives: [4] },
      { at: 4, event: "written", who: "storage", from: "b", text: "", taken: true },
      { at: 5, event: "step_down", who: "a", text: "" },
      { at: 9, event: "written", who: "storage", from: "a", text: "", taken: true },
    ];
    for (const event of all) apply(world, event);
    expect(world.writes.map(({ from, ordinal, stale }) => [from, ordinal, stale])).toEqual([["a", 0, true], ["b", 1, false]]);
  });

  it("cuts links for as long as a fault lasts", () => {
    const world = beginning(drawn(1, 0));
    apply(world, { at: 10, event: "fault", text: "", action: "split a b | c s1", lasts: 100 });
    expect(cutsNow(world, 50)).toHaveLength(8);
    expect(cutsNow(world, 110)).toHaveLength(0);
    apply(world, { at: 120, event: "lead", who: "b", text: "" });
    apply(world, { at: 130, event: "fault", text: "", action: "isolate leader" });
    expect(cutsNow(world, 1e12).every(({ from, to }) => from === "b" || to === "b")).toBe(true);
    apply(world, { at: 140, event: "fault", text: "", action: "heal" });
    expect(cutsNow(world, 141)).toHaveLength(0);
  });
});

describe("beliefs", () => {
  it("counts a paused leader as none, and two that run as two", () => {
    const run = drawn(1, 0);
    run.events = [
      { at: 100, event: "lead", who: "a", text: "", token: 1 },
      { at: 200, event: "pause", who: "a", text: "" },
      { at: 300, event: "lead", who: "b", text: "", token: 2 },
      { at: 400, event: "resume", who: "a", text: "" },
      { at: 400, event: "breach", text: "!! two", promise: "p0" },
      { at: 450, event: "breach", text: "!! other", promise: "unpromised" },
      { at: 500, event: "step_down", who: "a", text: "" },
    ];
    run.head.story.lasts_us = 1000;
    const found = beliefsOf(run);
    expect(found.vacant).toEqual([{ from: 0, to: 100 }, { from: 200, to: 300 }]);
    expect(found.double).toEqual([{ from: 400, to: 500 }]);
    expect(found.pauses).toEqual({ a: [{ from: 200, to: 400 }] });
    expect(found.beliefs.map(({ who, from, to }) => [who, from, to])).toEqual([["a", 100, 500], ["b", 300, 1000]]);
    expect(found.breaches.map(({ text }) => text)).toEqual(["two"]);
  });

  it("writes moments and spans", () => {
    expect(stamp(25_000_064)).toBe("25.000 064");
    expect([8_557_000, 20_000_000, 100_000_000, 64, 2_500, 300_000].map(spanText)).toEqual(["8.56 s", "20 s", "100 s", "64 µs", "2.5 ms", "300 ms"]);
    expect([5_000_000, 250_000, 40, 25_000_064, 1_500_000, 0].map(scriptTime)).toEqual(["5s", "250ms", "40us", "25.000064s", "1.5s", "0s"]);
  });
});

describe("a run's lines", () => {
  it("are read whole or not at all", () => {
    const head = JSON.stringify({ event: "run" });
    const result = JSON.stringify({ event: "result" });
    const run = parseRun(`${head}\n{"at":1,"event":"say","text":"x"}\n${result}\n`);
    expect(run.events).toHaveLength(1);
    for (const cut of ["", head, `${head}\n{"at":1,"event":"say","text":"x"}\n`]) expect(() => parseRun(cut)).toThrow();
  });

  it("are routine where leading takes them all the time", () => {
    const run = drawn(1, 0);
    run.events = [
      { at: 0, event: "send", who: "a", to: "b", text: "", message: 1, routine: true },
      { at: 1, event: "receive", who: "b", from: "a", text: "", message: 1 },
      { at: 2, event: "send", who: "a", to: "b", text: "", message: 2, routine: false },
      { at: 3, event: "ring", who: "a", text: "" },
      { at: 4, event: "lead", who: "a", text: "" },
    ];
    const routine = routineMessages(run);
    expect(run.events.map((_, place) => isRoutine(run, place, routine))).toEqual([true, true, false, true, false]);
  });
});

describe("layout", () => {
  it("keeps all processes on the stage and apart", () => {
    for (const [contenders, servers] of [[2, 1], [3, 5], [5, 0], [3, 3], [1, 0], [9, 0]] as const) {
      const processes = Array.from({ length: contenders + servers }, (_, at) => `p${at}`);
      const places = Object.values(layout({ processes, contenders }));
      for (const { x, y } of places) {
        expect(x).toBeGreaterThan(40);
        expect(x).toBeLessThan(WIDTH - 40);
        expect(y).toBeGreaterThan(30);
        expect(y).toBeLessThan(HEIGHT - 30);
      }
      for (const [at, one] of places.entries()) {
        for (const other of places.slice(at + 1)) expect(Math.hypot(one.x - other.x, one.y - other.y)).toBeGreaterThan(50);
      }
    }
  });
});
