//! Random faults; after their end everything must work.

use crate::seeds;
use tenure_lab::{
    cluster::{
        catalogue::{
            BAD_DISKS, BAD_LINKS, BAD_NET, CALM, CRASHES, FAR_APART, FAR_APART_USUAL, MIXED,
            MOVING, PARTITIONS, ROTTEN_DISKS, ROUGH, ROUGH_ALONE, ROUGH_FIVE, ROUGH_FOUR,
            ROUGH_SEVEN, ROUGH_TWO, SCENARIOS, SOAK,
        },
        faults::FaultKind,
        scenario::Scenario,
    },
    engine::RunCounts,
    invariants,
};

/// Runs a scenario with several seeds. Every enabled fault must have had an effect, and every invariant must have been
/// checked.
fn run(scenario: &Scenario, usual: u64) {
    let mut total = RunCounts::default();
    for seed in seeds(usual) {
        total.add(&scenario.run(seed).counts);
    }
    if *seeds(usual).end() >= usual {
        // Disks are damaged only where a minority can be.
        let needs_minority =
            |fault: &FaultKind| matches!(fault, FaultKind::BitRot | FaultKind::Misplaced);
        let can_happen = |fault: &&FaultKind| scenario.members > 2 || !needs_minority(fault);
        total.assert_all(scenario.faults.iter().filter(can_happen).map(|fault| fault.name()));
        total.assert_all(invariants::expected(scenario));
        total.assert_all(["snapshot_taken", "watch_progress"]);
        // Distant members do little in that time.
        total.assert_all(scenario.distance.is_none().then_some("watch_compacted"));
    }
    println!("{}: {total:?}", scenario.name);
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
    let trace = |seed| {
        let mut world = ROUGH.world(seed);
        world.trace.text = Some(String::new());
        ROUGH.play(&mut world);
        (world.trace.text.take().unwrap(), world.trace.checksum, world.counts.clone())
    };
    for seed in seeds(2) {
        let (first, second) = (trace(seed), trace(seed));
        assert!(first.0.len() > 100_000, "the trace is short");
        assert!(first == second, "seed {seed} gave two different runs");
    }
    assert_ne!(trace(1).1, trace(2).1, "two seeds gave the same run");
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
