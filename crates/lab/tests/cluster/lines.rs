//! Elections while anything goes wrong: one believer, tokens that grow, nobody who waits for ever.

use crate::seeds;
use tenure_lab::{
    cluster::{
        catalogue::{LINES, LINES_CALM, RESTORED},
        scenario::Scenario,
    },
    engine::Counts,
    invariants,
};

fn run(scenario: &Scenario, usual: u64) {
    let mut total = Counts::default();
    for seed in seeds(usual) {
        total.add(&scenario.run(seed, None).counts);
    }
    if *seeds(usual).end() >= usual {
        total.assert_all(scenario.faults.iter().map(|fault| fault.name()));
        total.assert_all(invariants::expected(scenario));
        total.assert_all(["granted", "left", "ruled", "guarded_write"]);
    }
    println!("{}: {total:?}", scenario.name);
}

#[test]
fn one_leads_at_a_time_when_nothing_goes_wrong() {
    run(&LINES_CALM, 6);
}

#[test]
fn one_leads_at_a_time_whatever_goes_wrong() {
    run(&LINES, 24);
}

/// A token that was given out after the backup is never given out again.
#[test]
fn tokens_grow_though_all_is_lost_but_a_backup() {
    run(&RESTORED, 24);
}
