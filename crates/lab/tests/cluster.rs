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
#[path = "cluster/users.rs"]
mod users;
#[path = "cluster/versions.rs"]
mod versions;

use tenure_lab::{cluster::scenario::Scenario, engine::RunCounts, invariants};

/// Runs a scenario with several seeds. Every enabled fault must have had an effect, every invariant must have been
/// checked, and all of `also` must have happened.
fn holds(scenario: &Scenario, usual: u64, also: &[&'static str]) {
    let mut total = RunCounts::default();
    for seed in seeds(usual) {
        total.add(&scenario.run(seed).counts);
    }
    if *seeds(usual).end() >= usual {
        // Disks are damaged only where a minority can be.
        let needs_minority = |name: &&str| ["disk_rots", "disk_misplaces"].contains(name);
        let faults = scenario.faults.iter().map(|fault| fault.name);
        total.assert_all(faults.filter(|name| scenario.members > 2 || !needs_minority(name)));
        total.assert_all(invariants::expected(scenario));
        total.assert_all(also.iter().copied());
    }
    println!("{}: {total:?}", scenario.name);
}

/// The seeds of a test: those that `TENURE_SEED` and `TENURE_SEEDS` name, or the usual number.
pub fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match (number("TENURE_SEED"), number("TENURE_SEEDS")) {
        (Some(first), count) => first..=first + count.unwrap_or(1) - 1,
        (None, count) => 1..=count.unwrap_or(usual),
    }
}
