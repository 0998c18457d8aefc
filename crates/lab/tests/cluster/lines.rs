//! Elections while anything goes wrong: one believer, tokens that grow, nobody who waits for ever.

use crate::{
    chance::{CALM, ROUGH},
    seeds,
};
use tenure_lab::{
    cluster::scenario::Scenario,
    engine::{Counts, ms},
    invariants::one_believer,
};

pub const LINES_CALM: Scenario = Scenario {
    name: "lines_calm",
    registers: 1,
    holders: 1,
    watchers: 1,
    candidates: 4,
    rough_for: ms(4000),
    ..CALM
};

pub const LINES: Scenario =
    Scenario { name: "lines", faults: ROUGH.faults, rough_for: ms(8000), ..LINES_CALM };

fn run(scenario: &Scenario, usual: u64) {
    let mut total = Counts::default();
    for seed in seeds(usual) {
        total.add(&scenario.run(seed, None).counts);
    }
    if *seeds(usual).end() >= usual {
        total.assert_all(scenario.faults.iter().map(|fault| fault.name()));
        total.assert_all([one_believer::NAME, "granted", "left", "ruled", "guarded_write"]);
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
