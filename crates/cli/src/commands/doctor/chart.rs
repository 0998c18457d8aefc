//! Everything that was answered, as a value.

use std::collections::BTreeMap;

use serde::Serialize;
use tenure::api::wire::tenure::v1::MemberHealthResponse;
use tenure::grpc::{Client, Options};

use crate::commands::election::Times;

/// The state of the cluster, as far as members answered.
#[derive(Debug, Default, Serialize)]
pub(super) struct Chart {
    /// The members of the cluster, and any other endpoint that was asked.
    pub(super) members: Vec<Member>,
    /// What a majority agreed on could be read; how long that took. None: it could not.
    pub(super) majority_ms: Option<f64>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) no_majority: Option<String>,
    /// Alarms of members, as the server says it.
    pub(super) alarms: Vec<String>,
    pub(super) elections: Vec<Election>,
    pub(super) sessions: Vec<Session>,
    pub(super) believers: Vec<Believer>,
    /// The servers know nothing of tenure.v1: a real etcd.
    pub(super) is_etcd: bool,
    /// Names that were not looked at because there are too many.
    pub(super) left_out: usize,
    #[serde(skip)]
    pub(super) options: Options,
}

/// One member.
#[derive(Debug, Serialize)]
pub(super) struct Member {
    /// Its name, or its address if the name is unknown.
    pub(super) name: String,
    pub(super) endpoint: String,
    pub(super) is_learner: bool,
    /// It is in the cluster's list of members.
    pub(super) belongs: bool,
    pub(super) report: Option<MemberReport>,
    /// Why it says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) silence: Option<String>,
    #[serde(skip)]
    pub(super) client: Option<Client>,
}

/// What a member says of itself.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MemberReport {
    #[serde(serialize_with = "hex")]
    pub(super) cluster_id: u64,
    #[serde(serialize_with = "hex")]
    pub(super) member_id: u64,
    /// The raft leader it follows; 0 for none.
    #[serde(serialize_with = "hex")]
    pub(super) follows: u64,
    pub(super) term: u64,
    pub(super) committed: u64,
    pub(super) applied: u64,
    pub(super) revision: i64,
    pub(super) errors: Vec<String>,
    pub(super) round_trip_ms: f64,
    /// How far its wall clock is ahead of ours, to about a second.
    pub(super) clock_ahead_s: Option<i64>,
    /// None of a real etcd, or of an earlier release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) health: Option<Health>,
}

/// What a member knows of itself, and, if it is the raft leader, of the others.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Health {
    pub(super) release: String,
    pub(super) db_bytes: u64,
    pub(super) quota_bytes: u64,
    /// Of the log, since the member started.
    pub(super) flushes: u64,
    /// How long one took on average.
    pub(super) flush_us: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) progress: Vec<Progress>,
    pub(super) terms: Vec<TermSeen>,
}

/// How far a member is, as the raft leader knows it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Progress {
    #[serde(serialize_with = "hex")]
    pub(super) member: u64,
    #[serde(rename = "match")]
    pub(super) matched: u64,
    pub(super) next: u64,
    pub(super) lag: u64,
    pub(super) active: bool,
    pub(super) round_trip_us: u64,
}

/// A raft leader, or none, in a term, as a member saw it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TermSeen {
    pub(super) term: u64,
    #[serde(serialize_with = "hex")]
    pub(super) raft_leader: u64,
    pub(super) since_unix_ms: u64,
}

impl From<MemberHealthResponse> for Health {
    fn from(health: MemberHealthResponse) -> Health {
        let progress = health.progress.into_iter().map(|one| Progress {
            member: one.member,
            matched: one.r#match,
            next: one.next,
            lag: one.lag,
            active: one.active,
            round_trip_us: one.round_trip_us,
        });
        let terms = health.terms.into_iter().map(|seen| TermSeen {
            term: seen.term,
            raft_leader: seen.raft_leader,
            since_unix_ms: seen.since_unix_ms,
        });
        Health {
            release: health.release,
            db_bytes: health.db_bytes,
            quota_bytes: health.quota_bytes,
            flushes: health.flushes,
            flush_us: health.flush_us,
            progress: progress.collect(),
            terms: terms.collect(),
        }
    }
}

/// One election or lock.
#[derive(Debug, Default, Serialize)]
pub(super) struct Election {
    pub(super) name: String,
    /// The first candidate by a majority; `None` if there is none, or if no majority could be asked.
    pub(super) first: Option<First>,
    /// The same question, answered by each member alone from what it knows.
    pub(super) seen_by: BTreeMap<String, First>,
    pub(super) frozen: bool,
    /// All candidates; `None` if that could not be asked, which is not the same as no candidates.
    pub(super) candidates: Option<Vec<Candidate>>,
    /// Why it could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) candidates_unknown: Option<String>,
    /// The candidate that the leader makes room for.
    pub(super) successor: Option<String>,
    /// An earlier holder may still act for so long.
    pub(super) delay_ms: Option<u64>,
    /// How the last tenure ended.
    pub(super) last_end: Option<LastEnd>,
    /// Tenures that ended lately because a leader was silent or died.
    pub(super) lost_lately: usize,
}

/// The first candidate, and when that was true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct First {
    pub(super) revision: i64,
    /// 0 if there is no candidate.
    pub(super) token: i64,
    pub(super) key: String,
}

/// A candidate.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Candidate {
    pub(super) identity: String,
    pub(super) token: i64,
    pub(super) session: String,
    pub(super) holds: bool,
    /// It knows that it holds.
    pub(super) told: bool,
    pub(super) unhealthy: bool,
    pub(super) stock: bool,
    /// It may hold beside others: shared, or by a permit.
    pub(super) shares: bool,
    pub(super) has_lease: bool,
    /// When it joined, leading or waiting.
    pub(super) since_unix_ms: u64,
    #[serde(flatten)]
    pub(super) times: Times,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct LastEnd {
    pub(super) identity: String,
    pub(super) token: i64,
    pub(super) reason: String,
    /// The same for people.
    #[serde(skip)]
    pub(super) ended: &'static str,
}

/// A process's session.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Session {
    pub(super) session: String,
    pub(super) identity: String,
    pub(super) ttl_ms: u64,
    pub(super) remaining_ms: u64,
    pub(super) holds: Vec<String>,
    pub(super) draining: Vec<String>,
}

/// A believer outside the cluster.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Believer {
    /// The URL or file.
    pub(super) place: String,
    #[serde(flatten)]
    pub(super) belief: Belief,
}

/// What is believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "believes", rename_all = "snake_case")]
pub(super) enum Belief {
    /// That it leads.
    Leads {
        election: Option<String>,
        identity: String,
        token: Option<i64>,
        /// For how much longer; less than nothing if the time is over.
        valid_ms: Option<i64>,
    },
    /// That another process leads, or none does.
    Follows { election: Option<String>, leader: String, token: Option<i64>, valid_ms: Option<i64> },
    /// It says that it does not know.
    Unsure { election: Option<String>, why: String },
    /// There is a file, and it only says that there is a leader.
    Marker { election: Option<String> },
    /// Nothing could be read.
    Silent { why: String, missing: bool },
}

impl Chart {
    /// Members that answer.
    pub(super) fn speaking(&self) -> impl Iterator<Item = (&Member, &MemberReport)> {
        self.members.iter().filter_map(|member| Some((member, member.report.as_ref()?)))
    }

    /// The name of the member with this id.
    pub(super) fn called(&self, id: u64) -> String {
        let known = self.speaking().find(|(_, report)| report.member_id == id);
        known.map_or_else(|| format!("{id:x}"), |(member, _)| member.name.clone())
    }

    pub(super) fn election(&self, name: &str) -> Option<&Election> {
        self.elections.iter().find(|election| election.name == name)
    }
}

impl Election {
    /// All known candidates.
    pub(super) fn standing(&self) -> &[Candidate] {
        self.candidates.as_deref().unwrap_or_default()
    }

    /// The leader; the first of them if several hold at once.
    pub(super) fn leader(&self) -> Option<&Candidate> {
        self.holders().next()
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = &Candidate> {
        self.standing().iter().filter(|candidate| candidate.holds)
    }

    pub(super) fn waiting(&self) -> usize {
        self.standing().iter().filter(|candidate| !candidate.holds).count()
    }
}

fn hex<S: serde::Serializer>(id: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{id:x}"))
}
