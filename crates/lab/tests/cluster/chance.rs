//! Random faults; after their end everything must work.

use std::collections::BTreeSet;

use crate::{holds, seeds};
use tenure_lab::cluster::{
    catalogue::{
        BAD_DISKS, BAD_LINKS, BAD_NET, CALM, CRASHES, FAR_APART, FAR_APART_USUAL, MIXED, MOVING,
        PARTITIONS, RECIPES, ROTTEN_DISKS, ROUGH, ROUGH_ALONE, ROUGH_FIVE, ROUGH_FOUR, ROUGH_SEVEN,
        ROUGH_TWO, SCENARIOS, SOAK,
    },
    scenario::Scenario,
};

fn run(scenario: &Scenario, usual: u64) {
    let mut also = vec!["snapshot_taken", "watch_progress"];
    // Distant members do little in that time.
    also.extend(scenario.distance.is_none().then_some("watch_compacted"));
    holds(scenario, usual, &also);
}

#[test]
fn cluster_holds_without_faults() {
    run(&CALM, 4);
}

#[test]
fn cluster_holds_under_all_faults() {
    run(&ROUGH, 46);
}

#[test]
fn cluster_of_one_holds_under_all_faults() {
    run(&ROUGH_ALONE, 16);
}

#[test]
fn cluster_of_five_holds_under_all_faults() {
    run(&ROUGH_FIVE, 14);
}

#[test]
fn cluster_of_seven_holds_under_all_faults() {
    run(&ROUGH_SEVEN, 10);
}

#[test]
fn clusters_of_two_and_four_hold_under_all_faults() {
    run(&ROUGH_TWO, 16);
    run(&ROUGH_FOUR, 16);
}

#[test]
fn cluster_of_mixed_versions_holds_under_all_faults() {
    run(&MIXED, 20);
}

#[test]
fn cluster_holds_while_leadership_moves_between_slow_members() {
    run(&MOVING, 8);
}

#[test]
fn cluster_holds_under_crashes() {
    run(&CRASHES, 16);
}

#[test]
fn cluster_holds_under_partitions() {
    run(&PARTITIONS, 16);
}

#[test]
fn cluster_holds_under_network_faults() {
    run(&BAD_NET, 16);
}

#[test]
fn cluster_holds_under_link_faults() {
    run(&BAD_LINKS, 16);
}

#[test]
fn distant_members_hold_under_faults() {
    run(&FAR_APART, 8);
}

#[test]
fn distant_members_hold_with_default_timing() {
    run(&FAR_APART_USUAL, 8);
}

#[test]
fn cluster_holds_under_disk_faults() {
    run(&BAD_DISKS, 16);
}

#[test]
fn disk_damage_is_refused_or_does_no_harm() {
    run(&ROTTEN_DISKS, 24);
}

/// Seeds that once found something, and what.
#[test]
fn regression_seeds_stay_fixed() {
    for (scenario, seed, _what) in [
        (&ROUGH, 1, "a member without a leader asked to be called again at once, for ever"),
        (&CRASHES, 1, "the same, with a batch waiting behind one that was sent"),
        (&BAD_DISKS, 1, "the same, with leases due before the leader's first entry was applied"),
        (&SOAK, 90_001_084, "a slow member took old heartbeats for new ones and ended a lease"),
    ] {
        scenario.run(seed);
    }
}

#[test]
fn same_seed_gives_the_same_run_byte_for_byte() {
    for scenario in [&ROUGH, &RECIPES] {
        let trace = |seed| {
            let mut world = scenario.world(seed);
            world.trace.text = Some(String::new());
            scenario.play(&mut world);
            (world.trace.text.take().unwrap(), world.trace.checksum, world.counts.clone())
        };
        let mut checksums = BTreeSet::new();
        for seed in seeds(2) {
            let (first, second) = (trace(seed), trace(seed));
            assert!(first.0.len() > 100_000, "the trace is short");
            assert!(first == second, "{} --seed {seed} gave two different runs", scenario.name);
            assert!(checksums.insert(first.1), "{} --seed {seed} is another's run", scenario.name);
        }
    }
}

/// Repeats one run: `TENURE_SCENARIO` and `TENURE_SEED` name it. A scenario with a test of its own is repeated by that test
/// with `TENURE_SEED`.
#[test]
fn replay() {
    let Ok(name) = std::env::var("TENURE_SCENARIO") else { return };
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
    let scenario = scenario.unwrap_or_else(|| panic!("there is no scenario {name}"));
    for seed in seeds(1) {
        scenario.run(seed);
    }
}
