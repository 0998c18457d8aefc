// The member that the page talks to, and what happens when it goes away.

import { ApiError, call, get, onAnswer, token } from "./api";
import { now } from "./now.svelte";
import { poll } from "./poll";
import { num, type Member, type MemberStatus } from "./wire";

export interface Facts {
  version: string;
  read_only: boolean;
  dashboard: boolean;
  lab: boolean;
}

export type Link = "connecting" | "live" | "no-quorum" | "gone" | "logged-out";

const POLL_MS = 2000;
/** How long another member may take to show that it is there. */
const PROBE_MS = 1500;
const NAME_KEY = "tenure-member";

class MemberLink {
  facts = $state<Facts>({ version: "", read_only: false, dashboard: true, lab: false });
  link = $state<Link>("connecting");
  /** When the last answer came that said how things are. */
  heard = $state(0);
  why = $state("");
  members = $state<Member[]>([]);
  status = $state<MemberStatus>();
  revision = $state(0);
  /** The member that this page came from before, if it went away. */
  cameFrom = $state("");
  /** No other member answers either. */
  isAlone = $state(false);
  user = $state("");

  #probing = false;

  get me(): string {
    const id = this.status?.header?.member_id;
    return this.nameOf(id) || (typeof location === "undefined" ? "" : location.host);
  }

  get leader(): string {
    const id = this.status?.leader;
    return id === undefined || id === "0" ? "" : this.nameOf(id);
  }

  get term(): number {
    return num(this.status?.raftTerm);
  }

  nameOf(id: string | undefined): string {
    return this.members.find((member) => member.ID === id)?.name ?? "";
  }

  start(): void {
    const query = new URLSearchParams(location.search);
    this.cameFrom = query.get("from") ?? "";
    if (this.cameFrom) history.replaceState(null, "", `${location.pathname}${location.hash}`);
    onAnswer((error, response) => this.#hear(error, response));
    void get("/ui/facts.json")
      .then(async (response) => {
        this.facts = (await response.json()) as Facts;
      })
      .catch(() => undefined)
      .then(() => {
        if (this.facts.dashboard) poll(() => this.#look(), POLL_MS);
      });
  }

  async logIn(name: string, password: string): Promise<void> {
    const answer = await call<{ token?: string }>("auth/authenticate", { name, password });
    token.set(answer.token ?? null);
    this.user = name;
    this.link = "connecting";
    await this.#look();
  }

  logOut(): void {
    token.set(null);
    this.user = "";
    this.link = "logged-out";
  }

  async #look(): Promise<void> {
    const status = await call<MemberStatus>("maintenance/status");
    this.status = status;
    this.revision = Math.max(this.revision, num(status.header?.revision));
    // The list of members as this member knows it: it answers without a majority, too.
    const list = await call<{ members?: Member[] }>("cluster/member/list", { linearizable: false });
    this.members = (list.members ?? []).sort((a, b) => (a.name ?? "").localeCompare(b.name ?? "", undefined, { numeric: true }));
    sessionStorage.setItem(NAME_KEY, this.me);
    if (!status.leader || status.leader === "0") {
      this.link = "no-quorum";
      this.why = "no raft leader is known";
    } else if (this.link !== "logged-out") {
      this.link = "live";
      this.heard = now.ms;
    }
  }

  #hear(error: ApiError | undefined, response: Response | undefined): void {
    now.hear(response?.headers.get("date") ?? null);
    if (!error) {
      if (this.link === "gone") this.link = "connecting";
      this.isAlone = false;
      return;
    }
    if (error.isUnreachable) {
      this.link = "gone";
      this.why = error.message;
      void this.#goElsewhere();
    } else if (error.isLoggedOut) {
      token.set(null);
      this.link = "logged-out";
      this.why = error.message;
    } else if (error.isWithoutQuorum) {
      this.link = "no-quorum";
      this.why = error.message;
    }
  }

  /** Goes to another member that answers, with the same page. */
  async #goElsewhere(): Promise<void> {
    if (this.#probing) return;
    this.#probing = true;
    try {
      const urls = this.members.flatMap((member) => (member.clientURLs ?? []).slice(0, 1));
      const others = urls.map(origin).filter((url) => url !== "" && url !== location.origin);
      const here = await answers(location.origin);
      if (here) return;
      const there = await Promise.any(
        others.map(async (url) => {
          if (!(await answers(url))) throw new Error(url);
          return url;
        }),
      ).catch(() => undefined);
      this.isAlone = there === undefined;
      if (there !== undefined) {
        const from = encodeURIComponent(sessionStorage.getItem(NAME_KEY) ?? location.host);
        location.replace(`${there}/ui/?from=${from}${location.hash}`);
      }
    } finally {
      this.#probing = false;
    }
  }
}

function origin(url: string): string {
  try {
    return new URL(url).origin;
  } catch {
    return "";
  }
}

/** Whether anything answers there. What it says, a page of another origin does not learn. */
async function answers(url: string): Promise<boolean> {
  try {
    await fetch(`${url}/ui/facts.json`, { mode: "no-cors", cache: "no-store", signal: AbortSignal.timeout(PROBE_MS) });
    return true;
  } catch {
    return false;
  }
}

export const member = new MemberLink();
