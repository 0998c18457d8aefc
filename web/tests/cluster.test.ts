import { expect, test } from "vitest";
import { quorum } from "../src/dashboard/quorum";
import { bands, longest } from "../src/dashboard/terms";
import { below, diff, pretty } from "../src/dashboard/keys";
import { happenings } from "../src/dashboard/events";
import { plan } from "../src/lib/election-actions";
import { quoted } from "../src/lib/shell";

const up = (id: string, follows: string) => ({
  is_learner: false,
  report: { member_id: id, follows, term: 1, committed: 1, applied: 1, revision: 1, errors: [], round_trip_ms: 1 },
});
const down = { is_learner: false, report: null };

test("the quorum is said in words", () => {
  const three = [up("a", "a"), up("b", "a"), up("c", "a")];
  expect(quorum(three)).toEqual({ text: "3 of 3 answer; one more may fail", well: true });
  expect(quorum([...three.slice(0, 2), down])).toEqual({ text: "2 of 3 answer; none may fail", well: false });
  expect(quorum([three[0]!, down, down]).text).toBe("1 of 3 answer, and 2 are needed: nothing can be decided");
  expect(quorum([up("a", "0"), up("b", "0"), down]).text).toBe("2 of 3 answer, but no raft leader is elected yet");
  expect(quorum([up("a", "a")]).well).toBe(true);
  expect(quorum([...three, { ...down, is_learner: true }]).text).toBe("3 of 3 answer; one more may fail");
});

test("terms are bands, and time without a raft leader is one too", () => {
  const seen = [
    { term: 1, raft_leader: "a", since_unix_ms: 10 },
    { term: 1, raft_leader: "0", since_unix_ms: 20 },
    { term: 2, raft_leader: "b", since_unix_ms: 25 },
  ];
  const found = bands(seen, 100, (id) => id.toUpperCase());
  expect(found.map(({ term, leader, from, until, lasts }) => [term, leader, from, until, lasts])).toEqual([
    [1, "A", 10, 20, false], [1, "", 20, 25, false], [2, "B", 25, 100, true],
  ]);
  expect(longest([seen.slice(1), seen, []])).toBe(seen);
  expect(longest([])).toEqual([]);
});

test("keys lie in folders, and values are compared by lines", () => {
  const keys = ["a/b/1", "a/b/2", "a/c", "/x/y", "z"].map((text) => ({ text }));
  expect(below(keys, "").map((one) => [one.kind, one.name])).toEqual([["folder", "a/"], ["folder", "/x/"], ["key", "z"]]);
  expect(below(keys, "a/").map((one) => one.name)).toEqual(["b/", "c"]);
  expect(diff("a\nb\nc", "a\nx\nc").map((one) => one.kind + one.text)).toEqual(["samea", "goneb", "newx", "samec"]);
  expect(diff("", "")).toEqual([{ kind: "same", text: "" }]);
  expect(pretty('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(pretty("12")).toBeUndefined();
});

test("events are told from new to old, an end before the beginning that follows it", () => {
  const told = happenings(
    [{
      name: "x",
      tenures: [
        { identity: "a", token: "3", from_unix_ms: "10", until_unix_ms: "20", reason: "EXPIRED" },
        { identity: "b", token: "4", from_unix_ms: "20", reason: "TENURE_LASTS" },
      ],
    }],
    100,
    () => 0,
  );
  expect(told.map((one) => `${one.who} ${one.text}`)).toEqual([
    "b leads with token 4, at once after a",
    "a no longer leads: expired: no renewal in time; not confirmed to have stopped",
    "a leads with token 3",
  ]);
});

test("an action that cannot be done says why, and every one has its command", () => {
  const leader = { identity: "a b", token: "7", holds: true, session: "1" };
  const next = { identity: "c", token: "9", session: "2" };
  expect(plan("x", { kind: "resign" }, { candidates: [leader, next] })).toMatchObject({ command: "tenure resign x" });
  expect(plan("x", { kind: "resign" }, { candidates: [leader] }).refused).toMatch(/No healthy candidate/);
  expect(plan("x", { kind: "resign" }, {}).refused).toBe("Nobody leads.");
  expect(plan("x", { kind: "transfer", to: { ...next, stock: true } }, { candidates: [leader] }).refused).toMatch(/etcd/);
  expect(plan("x", { kind: "transfer", to: leader }, {}).command).toBe("tenure transfer x --to 'a b'");
  expect(plan("x", { kind: "evict", whom: leader }, { candidates: [leader, next] })).toMatchObject({ command: "tenure evict x --token 7", danger: true });
  expect(quoted("it's")).toBe("'it'\\''s'");
});
