//! Chance decides what goes wrong; at the end everything must be well.

use crate::seeds;
use tenure_lab::{
    cluster::{
        catalogue::{
            BAD_DISKS, BAD_NET, CALM, CRASHES, PARTITIONS, ROUGH, ROUGH_ALONE, ROUGH_FIVE,
            ROUGH_SEVEN, SCENARIOS,
        },
        scenario::Scenario,
    },
    engine::Counts,
    invariants,
};

/// Runs a scenario with several seeds. What was switched on must have struck, and every invariant must
/// have been held against something.
fn run(scenario: &Scenario, usual: u64) {
    let mut total = Counts::default();
    for seed in seeds(usual) {
        total.add(&scenario.run(seed, None).counts);
    }
    if *seeds(usual).end() >= usual {
        total.assert_all(scenario.faults.iter().map(|fault| fault.name()));
        total.assert_all(invariants::expected(scenario));
        total.assert_all(["snapshot_taken", "watch_compacted", "watch_progress"]);
    }
    println!("{}: {total:?}", scenario.name);
}

#[test]
fn all_is_well_when_nothing_goes_wrong() {
    run(&CALM, 4);
}

#[test]
fn all_is_well_after_anything_went_wrong() {
    run(&ROUGH, 46);
}

#[test]
fn all_is_well_after_anything_went_wrong_with_one_member() {
    run(&ROUGH_ALONE, 16);
}

#[test]
fn all_is_well_after_anything_went_wrong_with_five() {
    run(&ROUGH_FIVE, 14);
}

#[test]
fn all_is_well_after_anything_went_wrong_with_seven() {
    run(&ROUGH_SEVEN, 10);
}

#[test]
fn all_is_well_after_crashes() {
    run(&CRASHES, 16);
}

#[test]
fn all_is_well_after_partitions() {
    run(&PARTITIONS, 16);
}

#[test]
fn all_is_well_after_bad_weather() {
    run(&BAD_NET, 16);
}

#[test]
fn all_is_well_after_trouble_with_disks() {
    run(&BAD_DISKS, 16);
}

/// Seeds that once found something, and what.
#[test]
fn what_was_found_once_stays_fixed() {
    for (scenario, seed, _what) in [
        (&ROUGH, 1, "a member without a leader asked to be called again at once, for ever"),
        (&CRASHES, 1, "the same, with a batch waiting behind one that was sent"),
        (&BAD_DISKS, 1, "the same, with leases due before the leader's first entry was applied"),
    ] {
        scenario.run(seed, None);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_byte_for_byte() {
    let trace = |seed| {
        let mut world = ROUGH.world(seed);
        world.trace.text = Some(String::new());
        ROUGH.play(&mut world);
        (world.trace.text.take().unwrap(), world.trace.checksum, world.counts.clone())
    };
    for seed in seeds(2) {
        let (first, second) = (trace(seed), trace(seed));
        assert!(first.0.len() > 100_000, "the trace tells little");
        assert!(first == second, "seed {seed} gave two different runs");
    }
    assert_ne!(trace(1).1, trace(2).1, "two seeds gave the same run");
}

/// Shows one run again: `TENURE_SCENARIO` and `TENURE_SEED` say which. The scenarios that are a test of
/// their own are shown by running that test with `TENURE_SEED`.
#[test]
fn replay() {
    let Ok(name) = std::env::var("TENURE_SCENARIO") else { return };
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
    let scenario = scenario.unwrap_or_else(|| panic!("there is no scenario {name}"));
    for seed in seeds(1) {
        scenario.run(seed, None);
    }
}
