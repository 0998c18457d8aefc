//! Elections under faults: one believer, growing tokens, no candidate that waits for ever.

use tenure_lab::cluster::{
    catalogue::{ELECTIONS, ELECTIONS_CALM, RESTORED},
    scenario::Scenario,
};

use crate::holds;

fn run(scenario: &Scenario, usual: u64) {
    holds(scenario, usual, &["granted", "left", "ruled", "guarded_write"]);
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
