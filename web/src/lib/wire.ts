// What the gateway answers. Numbers of 64 bits are strings there, and what is zero is left out.

export interface Header {
  cluster_id?: string;
  member_id?: string;
  revision?: string;
  raft_term?: string;
}

export type EndReason =
  | "TENURE_LASTS" | "RESIGNED" | "EXPIRED" | "REVOKED" | "CLOSED" | "CONNECTION_LOST" | "EVICTED"
  | "TRANSFERRED" | "PREEMPTED" | "UNHEALTHY" | "FROZEN" | "DELETED";

export interface Candidate {
  identity?: string;
  session?: string;
  token?: string;
  key?: string;
  value?: string;
  holds?: boolean;
  mode?: "SHARED" | "PERMIT";
  slot?: number;
  priority?: number;
  unhealthy?: boolean;
  stock?: boolean;
  since_unix_ms?: string;
  metadata?: Record<string, string>;
  leads_since_unix_ms?: string;
}

export interface Tenure {
  identity?: string;
  token?: string;
  value?: string;
  from_revision?: string;
  until_revision?: string;
  from_unix_ms?: string;
  until_unix_ms?: string;
  reason?: EndReason;
  stopped?: boolean;
}

export interface ElectionInfo {
  name?: string;
  holders?: number;
  waiting?: number;
  frozen?: boolean;
  leader?: Candidate;
  state?: ElectionState;
  changes?: number;
  vacant_since_unix_ms?: string;
  successor?: string;
  forgotten?: string;
  tenures?: Tenure[];
  ttl_ms?: string;
  remaining_ms?: string;
}

export type ElectionState =
  | "STATE_STEADY" | "STATE_CONTESTED" | "STATE_VACANT" | "STATE_FLAPPING" | "STATE_FROZEN"
  | "STATE_HANDING_OVER" | "STATE_IDLE";

export type ElectionOrder = "BY_NAME" | "BY_CHANGES" | "BY_WAITING" | "BY_BEGINNING";

export interface ElectionList {
  header?: Header;
  elections?: ElectionInfo[];
  matching?: number;
  counts?: { state?: ElectionState; count?: number }[];
}

/** What is new in the feed of elections. */
export interface FollowNews {
  header?: Header;
  revision?: string;
  begins?: boolean;
  complete?: boolean;
  changed?: ElectionInfo[];
  gone?: string[];
}

export interface Candidates {
  header?: Header;
  candidates?: Candidate[];
  frozen?: boolean;
  successor?: string;
  delay_ms?: string;
}

export interface History {
  header?: Header;
  tenures?: Tenure[];
  forgotten?: string;
}

export interface Candidacy {
  name?: string;
  token?: string;
  held?: boolean;
  ahead?: number;
  draining?: boolean;
  successor?: string;
}

export interface SessionInfo {
  session?: string;
  identity?: string;
  ttl_ms?: string;
  remaining_ms?: string;
  fast_release?: boolean;
  candidacies?: Candidacy[];
}

export interface Member {
  ID?: string;
  name?: string;
  peerURLs?: string[];
  clientURLs?: string[];
  isLearner?: boolean;
}

export interface MemberStatus {
  header?: Header;
  version?: string;
  dbSize?: string;
  leader?: string;
  raftIndex?: string;
  raftTerm?: string;
  raftAppliedIndex?: string;
  errors?: string[];
  isLearner?: boolean;
}

export interface KeyValue {
  key?: string;
  value?: string;
  create_revision?: string;
  mod_revision?: string;
  version?: string;
  lease?: string;
}

/** A number of 64 bits that fits: revisions, tokens and times do. Ids stay strings. */
export const num = (text: string | undefined): number => (text === undefined ? 0 : Number(text));
