//! What can be told about a member without asking another.

use tenure_api::{Alarm, MemberId, Revision, Term};

use super::{Counts, Replica};
use crate::{
    Moment,
    log::{LogIndex, SnapshotMark},
    raft::RaftRole,
    state::State,
};

/// A member as it stands.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its id.
    pub me: MemberId,
    /// Follower, candidate or leader.
    pub role: RaftRole,
    /// The raft leader it knows.
    pub leader: Option<MemberId>,
    /// There has been none for an election timeout. One that died is replaced sooner: who needs one waits until then.
    pub lacks_leader: bool,
    /// The raft term.
    pub term: Term,
    /// The raft term as the disk has it: what others may be told.
    pub durable_term: Term,
    /// How many members vote.
    pub voters: usize,
    /// Whether it has no vote itself.
    pub is_learner: bool,
    /// Whether it has caught up with the raft leader since it started.
    pub has_caught_up: bool,
    /// Whether the others know its name, its addresses and what it can do.
    pub is_published: bool,
    /// Whether it can do all that the members can together: the others know it, and no version is about to be raised.
    pub is_capable: bool,
    /// Up to where the log is committed.
    pub committed: LogIndex,
    /// Up to where it is applied here.
    pub applied: LogIndex,
    /// The end of the log.
    pub last_index: LogIndex,
    /// The first entry still in memory.
    pub first_index: LogIndex,
    /// The log's tail in memory, in bytes.
    pub log_bytes: usize,
    /// The store's revision.
    pub revision: Revision,
    /// The store's size in bytes.
    pub store_bytes: u64,
    /// Live keys.
    pub keys: usize,
    /// Live leases.
    pub leases: usize,
    /// Watchers, and how many of them are behind.
    pub watchers: (usize, usize),
    /// Bytes the store may hold.
    pub quota_bytes: u64,
    /// What needs a person.
    pub alarms: Vec<Alarm>,
    /// Whether requests are judged by users and roles, and how many changes of those there were.
    pub auth: (bool, u64),
    /// The command version in force.
    pub cluster_version: u32,
    /// Whether every request has been answered.
    pub is_idle: bool,
    /// Up to where history was dropped.
    pub compacted: Revision,
    /// Writes of this member's clients that are not answered yet.
    pub writes_pending: usize,
    /// Whether so many of them wait that taking in more would be of no use.
    pub is_behind: bool,
    /// What it has done since it came up.
    pub counts: Counts,
}

/// What a member does by itself if it hears nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaftTimer {
    /// The raft leader tells the others that it is there.
    Heartbeat,
    /// Any other member stands for election.
    Election,
}

impl Replica {
    /// What this member does next by itself, and when; none if it has no vote.
    pub fn raft_timer(&self) -> Option<(RaftTimer, Moment)> {
        let ticks = self.raft.ticks_until_due()? as u32;
        let timer = if self.is_leader() { RaftTimer::Heartbeat } else { RaftTimer::Election };
        Some((timer, self.next_tick + self.config.tick * (ticks - 1)))
    }

    /// How this member stands.
    pub fn status(&self) -> Status {
        Status {
            me: self.config.me,
            role: self.raft.role(),
            leader: self.raft.leader(),
            lacks_leader: self.lacks_leader(),
            term: self.raft.term(),
            durable_term: self.raft.durable_term(),
            voters: self.raft.voter_count(),
            is_learner: self.raft.is_learner(self.config.me),
            has_caught_up: self.has_caught_up(),
            is_published: self.is_published(),
            is_capable: self.is_published() && !self.is_version_rising(),
            committed: self.raft.committed(),
            applied: self.applied.0,
            last_index: self.raft.last_index(),
            first_index: self.raft.first_index(),
            log_bytes: self.raft.log_bytes(),
            revision: self.state.store.revision(),
            store_bytes: self.state.size_bytes(),
            keys: self.state.store.len(),
            leases: self.state.leases.len(),
            watchers: self.watchers.counts(),
            quota_bytes: self.config.quota_bytes,
            alarms: self.state.alarms.iter().copied().collect(),
            auth: (self.state.auth.is_enabled(), self.state.auth.revision()),
            cluster_version: self.state.cluster_version,
            is_idle: self.writes.is_idle() && self.reads.is_idle() && self.awaits_no_change(),
            compacted: self.state.store.compacted(),
            writes_pending: self.writes.pending(),
            is_behind: self.writes.is_behind(),
            counts: self.counts,
        }
    }

    /// Whether all members can apply more than the version in force allows.
    fn is_version_rising(&self) -> bool {
        let common = self.state.common_version();
        common.is_some_and(|common| common > self.state.cluster_version)
    }

    /// The raft term as the disk has it: what others may be told.
    pub fn durable_term(&self) -> Term {
        self.raft.durable_term()
    }

    /// The position of a snapshot taken now and raft's configuration, for checks of invariants.
    pub fn mark(&self) -> SnapshotMark {
        self.raft.mark_at(self.applied.0, self.applied.1)
    }

    /// The replicated state, for checks of invariants.
    pub fn state(&self) -> &State {
        &self.state
    }
}
