//! Leader election algorithms, good and bad, as processes on one [`stage`](crate::stage).
//!
//! One file each. An [`Algorithm`] says what it promises and how to build it for any number of contenders. Its [`Story`]s
//! show where it works and where it breaks, each with the faults that break it and the promises that are broken then. Costs
//! are measured by the same experiments for all ([`compare`](crate::compare)); no figure is written down here.

mod bully;
mod cas_lock;
mod cas_only;
mod flp;
mod heartbeat;
mod kubernetes;
mod lease;
mod paxos;
mod ping;
mod raft;
mod redis;
mod redlock;
mod ring;
mod sequential_keys;
mod singleton;
mod store;
mod story;
mod tenure;
mod wall_clock;

use std::time::Duration;

pub use story::{Story, StoryOutcome};

use crate::stage::{AlgorithmRun, Promise};

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub seed: u64,
    /// How many processes may lead.
    pub contenders: usize,
}

/// A leader election algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    pub name: &'static str,
    /// Its description, in one sentence.
    pub about: &'static str,
    /// Its origin.
    pub origin: &'static str,
    /// What it promises, under the faults that it was made for.
    pub promises: &'static [Promise],
    /// How many contenders its stories have.
    pub contenders: usize,
    /// The longest time from the start, or from the leader's death, until there is a leader; none if there is no bound.
    pub patience: Option<Duration>,
    pub build: fn(&Setup) -> Box<dyn AlgorithmRun>,
}

/// All algorithms, in the order of an explanation.
pub const ALGORITHMS: &[&Algorithm] = &[
    &singleton::SINGLETON,
    &bully::BULLY,
    &ring::RING,
    &heartbeat::HEARTBEAT,
    &heartbeat::LEASED_HEARTBEAT,
    &paxos::PAXOS,
    &paxos::EAGER_PAXOS,
    &flp::FLP,
    &flp::BEN_OR,
    &ping::PING,
    &raft::RAFT,
    &raft::RAFT_PAPER,
    &raft::RAFT_KRAFT,
    &raft::RAFT_ETCD,
    &raft::RAFT_NO_PREVOTE,
    &raft::RAFT_FIXED_TIMEOUTS,
    &cas_lock::CAS_LOCK_ERROR,
    &cas_lock::CAS_LOCK,
    &cas_lock::CAS_LOCK_WATCH,
    &cas_lock::CAS_LOCK_TTL,
    &cas_lock::CAS_LOCK_VERSION,
    &cas_lock::CAS_LOCK_RENEW,
    &cas_lock::CAS_LOCK_RENEW_STALE,
    &cas_lock::CAS_LOCK_CHECK,
    &cas_only::CAS_ONLY,
    &cas_only::CAS_GUARDED,
    &lease::LEASE,
    &lease::LEASE_FENCED,
    &lease::LEASE_FENCED_WATCH,
    &wall_clock::LEASE_WALL_CLOCK,
    &wall_clock::LEASE_BOUNDED_UNCERTAINTY,
    &sequential_keys::ETCD_RECIPE,
    &sequential_keys::ETCD_RECIPE_CHECKED,
    &sequential_keys::ETCD_RECIPE_GRANT_TOKEN,
    &sequential_keys::ETCD_RECIPE_GRANT_TOKEN_QUIET,
    &sequential_keys::ETCD_RECIPE_SHORTEST,
    &sequential_keys::ZOOKEEPER_HERD,
    &sequential_keys::ZOOKEEPER,
    &sequential_keys::ZOOKEEPER_FENCED,
    &sequential_keys::ZOOKEEPER_SESSION_ZXID,
    &redis::REDIS,
    &redlock::REDLOCK,
    &kubernetes::KUBERNETES,
    &kubernetes::KUBERNETES_MIXED,
    &wall_clock::DYNAMODB,
    &tenure::TENURE,
];

/// All stories, by algorithm.
pub const STORIES: &[&[Story]] = &[
    singleton::STORIES,
    bully::STORIES,
    ring::STORIES,
    heartbeat::STORIES,
    paxos::STORIES,
    flp::STORIES,
    ping::STORIES,
    raft::STORIES,
    cas_lock::STORIES,
    cas_only::STORIES,
    lease::STORIES,
    wall_clock::STORIES,
    sequential_keys::ETCD_STORIES,
    sequential_keys::ZOOKEEPER_STORIES,
    redis::STORIES,
    redlock::STORIES,
    kubernetes::STORIES,
    wall_clock::DYNAMODB_STORIES,
    tenure::STORIES,
];

/// The algorithm of that name.
pub fn algorithm(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().copied().find(|algorithm| algorithm.name == name)
}

/// The story of that name.
pub fn story(name: &str) -> Option<&'static Story> {
    STORIES.iter().copied().flatten().find(|story| story.name == name)
}
