// What the lab offers, the run that is open, and its forks.

import { scriptTime } from "./beliefs";
import { Player, type Loaded, loaded } from "./player.svelte";
import { type Algorithm, type Story, parseRun } from "./trace";

export interface Catalogue {
  algorithms: Algorithm[];
  stories: Story[];
  faults: { fault: string; about: string }[];
  tours: { title: string; story: string }[];
}

/** Why there is no run. */
export interface Problem {
  error: string;
  kind: string;
  line?: number | null;
  column?: number | null;
  expected?: string;
}

export interface Wanted {
  story: string;
  seed: number;
  /** Nothing: the story's own. */
  faults: string | null;
}

/** A run with other faults, that has its past in common with the one that it was made of. */
export interface Fork {
  id: number;
  parent: number | null;
  /** From where on it may differ. */
  from: number;
  name: string;
  faults: string;
  loaded: Loaded;
}

export class LabError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.error);
  }
}

async function answer(response: Response): Promise<string> {
  const text = await response.text();
  if (response.ok) return text;
  let problem: Problem = { error: `the lab answered ${response.status}`, kind: "lab" };
  try {
    problem = JSON.parse(text) as Problem;
  } catch {
    // Not the lab's own words: the number says what there is to say.
  }
  throw new LabError(problem);
}

export async function fetchCatalogue(): Promise<Catalogue> {
  return JSON.parse(await answer(await fetch("/lab/catalogue"))) as Catalogue;
}

export async function fetchRun(wanted: Wanted): Promise<Loaded> {
  const body = JSON.stringify({ story: wanted.story, seed: wanted.seed, faults: wanted.faults });
  const headers = { "content-type": "application/json" };
  return loaded(parseRun(await answer(await fetch("/lab/run", { method: "POST", headers, body }))));
}

export function problemOf(error: unknown): Problem {
  if (error instanceof LabError) return error.problem;
  const text = error instanceof Error ? error.message : String(error);
  return { error: text === "Failed to fetch" ? "the lab does not answer; is its process still running?" : text, kind: "lab" };
}

/** What is wrong, and where in the script. */
export function told({ line, column, error }: Problem): string {
  return line ? `Line ${line}, column ${column ?? 1}: ${error}` : error;
}

const FORKS_MAX = 12;

/** One story with its forks. */
export class Experiment {
  player = $state.raw<Player>() as Player;
  forks = $state.raw<Fork[]>([]);
  current = $state(0);
  busy = $state(false);
  problem = $state.raw<Problem | null>(null);
  private next = 1;

  constructor(readonly wanted: Wanted, first: Loaded, moment: number) {
    const name = first.run.head.own_faults ? "this story" : "with other faults";
    this.forks = [{ id: 0, parent: null, from: 0, name, faults: first.run.head.faults, loaded: first }];
    this.player = new Player([first], moment);
  }

  get fork(): Fork {
    return this.forks.find(({ id }) => id === this.current) as Fork;
  }

  choose(id: number): void {
    const fork = this.forks.find((one) => one.id === id);
    if (!fork) return;
    const moment = this.player.moment;
    this.player.pause();
    this.current = id;
    this.player = new Player([fork.loaded], moment);
  }

  /** Breaks something now: the fault is added to the script, and the run goes another way from here. */
  async break(fault: string, lasts = ""): Promise<boolean> {
    const at = Math.floor(this.player.moment) + 1;
    const line = `at ${scriptTime(at)} ${fault}${lasts === "" ? "" : ` for ${lasts}`}`;
    return this.rerun(`${this.fork.faults}${line}\n`, `+ ${fault}`, at);
  }

  /** The same story with another script. */
  async rerun(faults: string, name: string, from: number): Promise<boolean> {
    if (this.busy) return false;
    this.busy = true;
    this.problem = null;
    try {
      const other = await fetchRun({ ...this.wanted, faults });
      const fork: Fork = { id: this.next, parent: this.current, from, name, faults: other.run.head.faults, loaded: other };
      this.next += 1;
      // The oldest that nothing hangs on goes when there are too many.
      const kept = this.forks.length >= FORKS_MAX
        ? this.forks.filter((one, at) => at === 0 || one.id === this.current || at > 1)
        : this.forks;
      this.forks = [...kept, fork];
      this.choose(fork.id);
      return true;
    } catch (error) {
      this.problem = problemOf(error);
      return false;
    } finally {
      this.busy = false;
    }
  }
}

/** Where a script begins to differ from another: the time of the first line that only one of them has. */
export function firstDifference(one: string, other: string): number {
  const lines = (text: string) => text.split("\n").map((line) => line.split("#")[0]?.trim() ?? "").filter((line) => line !== "");
  const [left, right] = [lines(one), lines(other)];
  const only = [...left.filter((line) => !right.includes(line)), ...right.filter((line) => !left.includes(line))];
  return Math.min(...only.map(timeOf), Infinity);
}

const UNITS: Record<string, number> = { us: 1, ms: 1e3, s: 1e6, m: 6e7, h: 3.6e9 };

function timeOf(line: string): number {
  const found = /^at\s+([0-9.]+)(us|ms|s|m|h)\b/.exec(line);
  return found ? Number(found[1]) * (UNITS[found[2] as string] ?? 0) : 0;
}
