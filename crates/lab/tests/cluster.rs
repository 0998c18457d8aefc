//! Whole clusters in virtual time: see `tenure_lab::cluster`.
//!
//! `TENURE_SEEDS=1000 cargo nextest run --release -p tenure-lab --test cluster` runs more seeds
//! than the usual few. A run that fails prints the one command that shows it again.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "cluster/alarms.rs"]
mod alarms;
// Planted bugs exist in builds with debug assertions only.
#[cfg(debug_assertions)]
#[path = "cluster/canaries.rs"]
mod canaries;
#[path = "cluster/chance.rs"]
mod chance;
#[path = "cluster/elections.rs"]
mod elections;
#[path = "cluster/leases.rs"]
mod leases;
#[path = "cluster/members.rs"]
mod members;
#[path = "cluster/recipes.rs"]
mod recipes;
#[path = "cluster/service.rs"]
mod service;
#[path = "cluster/snapshots.rs"]
mod snapshots;
#[path = "cluster/takeover.rs"]
mod takeover;
#[path = "cluster/versions.rs"]
mod versions;

/// The seeds of a test: those that `TENURE_SEED` and `TENURE_SEEDS` name, or the usual number.
pub fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match (number("TENURE_SEED"), number("TENURE_SEEDS")) {
        (Some(first), count) => first..=first + count.unwrap_or(1) - 1,
        (None, count) => 1..=count.unwrap_or(usual),
    }
}
