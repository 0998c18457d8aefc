//! Every way to choose a leader, good and bad, as message-passing programs on one [`stage`](crate::stage).
//!
//! One file each. An [`Algorithm`] says what it promises and how to cast it for any number of contenders;
//! its [`Scenario`]s are the stories that show it at its best and where it breaks, each with the blows
//! that break it and the promises that are broken then. What it costs and how it fares is measured, by
//! the same experiments for all ([`compare`](crate::compare)); nothing of that is written down here.

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
mod scenario;
mod singleton;
mod standing_in_line;
mod store;
mod tenure;
mod wall_clock;

use std::time::Duration;

pub use scenario::{Outcome, Scenario};

use crate::stage::{Play, Promise};

/// What an algorithm is cast for.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub seed: u64,
    /// How many may lead.
    pub contenders: usize,
}

/// One way to choose a leader.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    pub name: &'static str,
    /// In one sentence.
    pub about: &'static str,
    /// Where it comes from.
    pub origin: &'static str,
    /// What it promises as long as nothing worse happens than what it was made for.
    pub promises: &'static [Promise],
    /// How many contenders it is shown with.
    pub contenders: usize,
    /// How long it takes at most, from the start or from the leader's death, until somebody leads; none
    /// if that may be never.
    pub patience: Option<Duration>,
    pub cast: fn(&Setup) -> Box<dyn Play>,
}

/// All of them, in the order in which one would explain them.
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
    &standing_in_line::ETCD_RECIPE,
    &standing_in_line::ETCD_RECIPE_CHECKED,
    &standing_in_line::ETCD_RECIPE_GRANT_TOKEN,
    &standing_in_line::ETCD_RECIPE_GRANT_TOKEN_QUIET,
    &standing_in_line::ETCD_RECIPE_SHORTEST,
    &standing_in_line::ZOOKEEPER_HERD,
    &standing_in_line::ZOOKEEPER,
    &standing_in_line::ZOOKEEPER_FENCED,
    &standing_in_line::ZOOKEEPER_SESSION_ZXID,
    &redis::REDIS,
    &redlock::REDLOCK,
    &kubernetes::KUBERNETES,
    &kubernetes::KUBERNETES_MIXED,
    &wall_clock::DYNAMODB,
    &tenure::TENURE,
];

/// All stories, by algorithm.
pub const SCENARIOS: &[&[Scenario]] = &[
    singleton::SCENARIOS,
    bully::SCENARIOS,
    ring::SCENARIOS,
    heartbeat::SCENARIOS,
    paxos::SCENARIOS,
    flp::SCENARIOS,
    ping::SCENARIOS,
    raft::SCENARIOS,
    cas_lock::SCENARIOS,
    cas_only::SCENARIOS,
    lease::SCENARIOS,
    wall_clock::SCENARIOS,
    standing_in_line::ETCD_SCENARIOS,
    standing_in_line::ZOOKEEPER_SCENARIOS,
    redis::SCENARIOS,
    redlock::SCENARIOS,
    kubernetes::SCENARIOS,
    wall_clock::DYNAMODB_SCENARIOS,
    tenure::SCENARIOS,
];

/// The algorithm of that name.
pub fn algorithm(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().copied().find(|algorithm| algorithm.name == name)
}

/// The story of that name.
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().copied().flatten().find(|scenario| scenario.name == name)
}
