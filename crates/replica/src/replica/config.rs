//! How a member is set up.

use std::time::Duration;

use tenure_api::{Member, MemberId, Term};

use super::retention::Retention;
use crate::{log::SnapshotMark, watch::WatchLimits};

/// How much is under way at once. The usual values are right for any cluster; tests draw others to reach every edge.
#[derive(Clone, Copy, Debug)]
pub struct PipelineLimits {
    /// A batch or entry under way for so long lets the next one follow.
    pub follow_after: Duration,
    /// Entries of the raft leader that are not applied yet.
    pub entries_max: usize,
    /// An entry takes no more batches once their commands weigh so much: it is applied in one go.
    pub entry_weight_max: usize,
    /// After so many heartbeats without an answer, another round of reads begins beside the first.
    pub read_round_heartbeats: u32,
}

impl Default for PipelineLimits {
    fn default() -> PipelineLimits {
        PipelineLimits {
            follow_after: Duration::from_millis(2),
            entries_max: 64,
            entry_weight_max: 2048,
            read_round_heartbeats: 4,
        }
    }
}

/// A member's settings.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// This member.
    pub me: MemberId,
    /// The members the cluster starts with; the same on all of them. Empty for a member that joins
    /// a running cluster: it learns the list from its first snapshot.
    pub members: Vec<Member>,
    /// Its human name, to be published.
    pub name: String,
    /// Where clients reach it, to be published.
    pub client_urls: Vec<String>,
    /// The number of its data directory, to be published.
    pub directory: u64,
    /// Makes its dice repeatable.
    pub seed: u64,
    /// The wall clock at [`Moment::ZERO`](crate::Moment::ZERO), in milliseconds since 1970. Logged for
    /// people to read; nothing is decided by it.
    pub clock_start_ms: u64,
    /// Raft's unit of time.
    pub tick: Duration,
    /// How often the raft leader shows itself.
    pub heartbeat: Duration,
    /// How long a silent raft leader is believed in, at least.
    pub election_timeout: Duration,
    /// Ask whether an election could be won before starting one.
    pub pre_vote: bool,
    /// Wait for one to two election timeouts, by chance, before an election. Without it all wait equally
    /// long and split the vote again and again: only to show that.
    pub random_timeouts: bool,
    /// How long a request may take before its outcome counts as unknown.
    pub request_timeout: Duration,
    /// Log entries after which a snapshot is taken, whatever their size.
    pub snapshot_entries: u64,
    /// Log bytes after which a snapshot is taken, while the state is less than four times that.
    pub snapshot_bytes_min: u64,
    /// The log's tail in memory, for followers that lag. Members that do not lead keep a quarter.
    pub tail_bytes_max: usize,
    /// Bounds on watching.
    pub watch: WatchLimits,
    /// Bounds on what is under way.
    pub pipeline: PipelineLimits,
    /// The newest command version this member says it can apply.
    pub command_version: u32,
    /// Bytes that the store may hold.
    pub quota_bytes: u64,
    /// How much history is kept.
    pub retention: Retention,
    /// How often the members compare what they hold; never if zero.
    pub audit_interval: Duration,
}

impl ReplicaConfig {
    /// The usual settings for a member of a cluster.
    pub fn new(me: MemberId, members: Vec<Member>) -> ReplicaConfig {
        let election_timeout = Duration::from_millis(500);
        ReplicaConfig {
            me,
            members,
            name: String::new(),
            client_urls: vec![],
            directory: 0,
            seed: 0,
            clock_start_ms: 0,
            tick: Duration::from_millis(10),
            heartbeat: Duration::from_millis(50),
            election_timeout,
            pre_vote: true,
            random_timeouts: true,
            request_timeout: Duration::from_secs(5) + 2 * election_timeout,
            snapshot_entries: 100_000,
            snapshot_bytes_min: 32 << 20,
            tail_bytes_max: 64 << 20,
            watch: WatchLimits::default(),
            pipeline: PipelineLimits::default(),
            command_version: crate::command::COMMAND_VERSION,
            quota_bytes: 2 << 30,
            retention: Retention::Period(Duration::from_secs(3600)),
            audit_interval: Duration::from_secs(60),
        }
    }

    pub(super) fn heartbeat_ticks(&self) -> usize {
        ticks(self.heartbeat, self.tick)
    }

    pub(super) fn election_ticks(&self) -> usize {
        ticks(self.election_timeout, self.tick).max(self.heartbeat_ticks() + 1)
    }

    /// How long requests are held while there is no raft leader; longer than an election should take.
    pub(super) fn leaderless_patience(&self) -> Duration {
        2 * self.election_timeout + Duration::from_millis(300)
    }

    /// Where the log of a new cluster starts.
    pub(super) fn first_mark(&self) -> SnapshotMark {
        let mut voters: Vec<_> =
            self.members.iter().filter(|member| !member.is_learner).map(|m| m.id).collect();
        voters.sort_unstable();
        SnapshotMark { index: 0, term: Term(0), voters, ..SnapshotMark::default() }
    }
}

fn ticks(duration: Duration, tick: Duration) -> usize {
    (duration.as_micros() / tick.as_micros().max(1)).max(1) as usize
}
