//! Elections under faults: one believer, growing tokens, no candidate that waits for ever.

use crate::seeds;
use tenure_lab::{
    cluster::{
        catalogue::{ELECTIONS, ELECTIONS_CALM, RESTORED},
        scenario::Scenario,
    },
    engine::RunCounts,
    invariants,
};

fn run(scenario: &Scenario, usual: u64) {
    let mut total = RunCounts::default();
    for seed in seeds(usual) {
        total.add(&scenario.run(seed).counts);
    }
    if *seeds(usual).end() >= usual {
        total.assert_all(scenario.faults.iter().map(|fault| fault.name()));
        total.assert_all(invariants::expected(scenario));
        total.assert_all(["granted", "left", "ruled", "guarded_write"]);
    }
    println!("{}: {total:?}", scenario.name);
}

#[test]
fn elections_have_one_leader_without_faults() {
    run(&ELECTIONS_CALM, 6);
}

#[test]
fn elections_have_one_leader_under_all_faults() {
    run(&ELECTIONS, 24);
}

/// A token that was given out after the backup is never given out again.
#[test]
fn tokens_grow_across_a_restore_from_backup() {
    run(&RESTORED, 24);
}
