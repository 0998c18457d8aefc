// Whether the cluster can decide, in words. Pure.

import type { ExaminedMember } from "./doctor.svelte";

const NUMBERS = ["none", "one", "two", "three", "four", "five", "six"];
const word = (number: number) => NUMBERS[number] ?? String(number);

export function quorum(members: readonly Pick<ExaminedMember, "is_learner" | "report">[]): { text: string; well: boolean } {
  const voters = members.filter((one) => !one.is_learner);
  const there = voters.filter((one) => one.report).length;
  const needed = Math.floor(voters.length / 2) + 1;
  const spare = there - needed;
  const answer = `${there} of ${voters.length} ${voters.length === 1 ? "answers" : "answer"}`;
  if (spare < 0) return { text: `${answer}, and ${needed} are needed: nothing can be decided`, well: false };
  const leads = voters.some((one) => one.report && one.report.follows === one.report.member_id);
  if (!leads) return { text: `${answer}, but no raft leader is elected yet`, well: false };
  if (voters.length === 1) return { text: "one member: if it fails, nothing can be decided", well: true };
  return { text: `${answer}; ${spare === 0 ? "none" : `${word(spare)} more`} may fail`, well: there === voters.length };
}
