//! Whole clusters in virtual time: see `world/mod.rs` for how it works.
//!
//! `TENURE_SEEDS=1000 cargo nextest run --release -p tenure-replica --test scheduler` runs more seeds
//! than the usual few. A run that fails prints the one command that shows it again.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "scheduler/alarms.rs"]
mod alarms;
#[path = "scheduler/canaries.rs"]
mod canaries;
#[path = "scheduler/chance.rs"]
mod chance;
#[path = "scheduler/leases.rs"]
mod leases;
#[path = "scheduler/lines.rs"]
mod lines;
#[path = "scheduler/members.rs"]
mod members;
#[path = "scheduler/service.rs"]
mod service;
#[path = "scheduler/snapshots.rs"]
mod snapshots;
#[path = "scheduler/takeover.rs"]
mod takeover;
#[path = "scheduler/versions.rs"]
mod versions;
mod world;

/// The seeds of a test: the one that `TENURE_SEED` names, or so many as usual, or as `TENURE_SEEDS`
/// says.
pub fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match (number("TENURE_SEED"), number("TENURE_SEEDS")) {
        (Some(first), count) => first..=first + count.unwrap_or(1) - 1,
        (None, count) => 1..=count.unwrap_or(usual),
    }
}
