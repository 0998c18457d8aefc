// What an operator may do to an election, what it will come to, and the command that does the same. Pure but for `run`.

import { call } from "./api";
import { tenure } from "./shell";
import { num, type Candidate, type Candidates } from "./wire";

export type Action =
  | { kind: "resign" }
  | { kind: "transfer"; to: Candidate }
  | { kind: "evict"; whom: Candidate }
  | { kind: "freeze" }
  | { kind: "resume" };

export interface Plan {
  title: string;
  /** What will happen, in sentences. */
  effect: string;
  command: string;
  button: string;
  danger: boolean;
  /** Why it cannot be done. */
  refused?: string;
}

const DRAIN_MS = 10_000;

export const called = (one: Candidate | undefined): string => one?.identity || (one ? `token ${one.token}` : "nobody");

export const holders = (election: Candidates): Candidate[] => (election.candidates ?? []).filter((one) => one.holds);
export const waiting = (election: Candidates): Candidate[] => (election.candidates ?? []).filter((one) => !one.holds);

/** The candidate that leads when the leader resigns: the chosen one, else the first healthy one. */
export function nextOf(election: Candidates): Candidate | undefined {
  const chosen = waiting(election).find((one) => one.session === election.successor);
  return chosen ?? waiting(election).find((one) => !one.unhealthy);
}

export function plan(name: string, action: Action, election: Candidates): Plan {
  const leader = holders(election)[0];
  switch (action.kind) {
    case "resign": {
      const next = nextOf(election);
      const base = {
        title: `Let ${called(leader)} resign?`,
        effect: `${called(leader)} is asked to stop and has 10 s. ${called(next)} then leads, with a token above ${leader?.token ?? 0}.`,
        command: tenure("resign", name),
        button: "Resign",
        danger: false,
      };
      if (!leader) return { ...base, refused: "Nobody leads." };
      if (leader.stock) return { ...base, refused: `${called(leader)} leads by etcd's API and cannot be asked to stop. Evict it, or stop its process.` };
      if (!next) return { ...base, refused: "No healthy candidate waits. Evict takes the leadership away all the same." };
      if (next.stock) return { ...base, refused: `${called(next)} is next by etcd's API and cannot be chosen. Evict makes it lead.` };
      return base;
    }
    case "transfer": {
      const base = {
        title: `Transfer to ${called(action.to)}?`,
        effect: leader
          ? `${called(leader)} is asked to stop and has 10 s. ${called(action.to)} then leads; its token is above ${leader.token}.`
          : `${called(action.to)} leads.`,
        command: tenure("transfer", name, "--to", called(action.to)),
        button: "Transfer",
        danger: false,
      };
      if (action.to.stock) return { ...base, refused: `${called(action.to)} waits by etcd's API and cannot be chosen.` };
      return base;
    }
    case "evict": {
      const leads = action.whom.holds;
      const next = waiting(election).find((one) => one.token !== action.whom.token && !one.unhealthy);
      const follows = next ? `${called(next)} follows at once` : "nobody waits, so the name is vacant";
      return {
        title: `Evict ${called(action.whom)}?`,
        effect: leads
          ? `Its tenure with token ${action.whom.token} ends now, without asking it; ${follows}. What it still writes must be refused by its token.`
          : `Its candidacy with token ${action.whom.token} is taken away. Its process may join again.`,
        command: tenure("evict", name, "--token", action.whom.token ?? "0"),
        button: "Evict",
        danger: true,
      };
    }
    case "freeze":
      return {
        title: "Freeze this name?",
        effect: `${leader ? `${called(leader)} is evicted, and n` : "N"}obody leads until it is resumed. Candidates keep waiting.`,
        command: tenure("freeze", name),
        button: "Freeze",
        danger: true,
      };
    case "resume":
      return {
        title: "Resume this name?",
        effect: `${called(waiting(election)[0])} leads next.`,
        command: tenure("resume", name),
        button: "Resume",
        danger: false,
      };
  }
}

/** Does it, and answers what came of it as far as the server has said. */
export async function run(name: string, action: Action, election: Candidates): Promise<{ said: string; token?: number }> {
  switch (action.kind) {
    case "resign":
    case "transfer": {
      const to = action.kind === "transfer" ? action.to : nextOf(election);
      const answer = await call<{ token?: string }>("tenure/elections/transfer", {
        name, session: to?.session ?? "0", within_ms: String(DRAIN_MS),
      });
      return { said: `${called(to)} is chosen and leads with token ${answer.token} when the leader has stopped.`, token: num(answer.token) };
    }
    case "evict": {
      const answer = await call<{ evicted?: Candidate }>("tenure/elections/evict", { name, token: action.whom.token });
      return { said: answer.evicted ? `Evicted ${called(action.whom)} with token ${action.whom.token}.` : `Token ${action.whom.token} was gone already.` };
    }
    case "freeze":
      await call("tenure/elections/freeze", { name });
      return { said: "Frozen: nobody leads until it is resumed." };
    case "resume":
      await call("tenure/elections/resume", { name });
      return { said: "Resumed." };
  }
}
