// The doctor's findings, asked for while a page shows them. Its examination asks every member, so it is not asked often.

import { ApiError, call } from "../lib/api";
import { now } from "../lib/now.svelte";
import { poll } from "../lib/poll";

export interface Finding {
  level: "critical" | "warning" | "note";
  kind: string;
  about: string;
  text: string;
  next: string;
}

export interface MemberReport {
  /** Ids are in hexadecimal. */
  member_id: string;
  follows: string;
  term: number;
  committed: number;
  applied: number;
  revision: number;
  errors: string[];
  round_trip_ms: number;
  clock_ahead_s?: number | null;
  health?: Health;
}

/** What a member knows of itself, and, if it is the raft leader, of the others. */
export interface Health {
  release: string;
  db_bytes: number;
  quota_bytes: number;
  flushes: number;
  flush_us: number;
  progress?: Progress[];
  terms: TermSeen[];
}

export interface Progress {
  member: string;
  match: number;
  next: number;
  lag: number;
  active: boolean;
  round_trip_us: number;
}

export interface TermSeen {
  term: number;
  raft_leader: string;
  since_unix_ms: number;
}

export interface ExaminedMember {
  name: string;
  endpoint: string;
  is_learner: boolean;
  belongs: boolean;
  report?: MemberReport | null;
  silence?: string;
}

export interface Report {
  well: boolean;
  findings: Finding[];
  members: ExaminedMember[];
  majority_ms?: number | null;
  elections: { name: string }[];
  left_out: number;
}

const POLL_MS = 5000;

class Doctor {
  report = $state<Report>();
  at = $state(0);
  refused = $state("");
  #users = 0;
  #stop: (() => void) | undefined;

  /** Asks as long as something shows what comes of it. */
  use(): () => void {
    this.#users += 1;
    this.#stop ??= poll(() => this.#ask(), POLL_MS).stop;
    return () => {
      this.#users -= 1;
      if (this.#users > 0) return;
      this.#stop?.();
      this.#stop = undefined;
    };
  }

  async #ask(): Promise<void> {
    try {
      this.report = await call<Report>("tenure/doctor", {}, 20_000);
      this.at = now.ms;
      this.refused = "";
    } catch (cause) {
      if (cause instanceof ApiError && !cause.isUnreachable) this.refused = cause.message;
      throw cause;
    }
  }
}

export const doctor = new Doctor();
