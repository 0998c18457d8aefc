//! The shipped recipes in virtual time: see `tenure_lab::recipes`.

use tenure_lab::{
    cluster::{
        catalogue::{RECIPES, RECIPES_CALM, RECIPES_FIVE, RECIPES_MEMBERS, RECIPES_PROGRAMS},
        scenario::Scenario,
    },
    engine::RunCounts,
    invariants,
    recipes::simulation,
};

use crate::seeds;

/// Every enabled fault must have had an effect, and every invariant must have been checked.
fn run(scenario: &Scenario, usual: u64) {
    let mut total = RunCounts::default();
    for seed in seeds(usual) {
        total.add(&scenario.run(seed).counts);
    }
    if *seeds(usual).end() >= usual {
        total.assert_all(scenario.faults.iter().map(|fault| fault.name()));
        if scenario.programs.is_some_and(|program_mix| program_mix.rough) {
            total.assert_all(simulation::PROGRAM_FAULTS);
            total.assert_all(["lost", "session_over", "drained", "frozen"]);
        }
        total.assert_all(invariants::expected(scenario));
        total.assert_all(["won", "locked", "worked", "released", "dropped", "closed"]);
        total.assert_all(["guarded_write", "not_waited", "withdrawn", "ruled"]);
    }
    println!("{}: {total:?}", scenario.name);
}

#[test]
fn recipes_hold_without_faults() {
    run(&RECIPES_CALM, 4);
}

#[test]
fn recipes_hold_under_program_faults() {
    run(&RECIPES_PROGRAMS, 8);
}

#[test]
fn recipes_hold_under_member_faults() {
    run(&RECIPES_MEMBERS, 10);
}

#[test]
fn recipes_hold_under_all_faults() {
    run(&RECIPES, 10);
}

#[test]
fn recipes_hold_under_all_faults_with_five_members() {
    run(&RECIPES_FIVE, 8);
}

/// A seed that once found something.
#[test]
fn campaign_can_be_repeated_at_once_after_it_was_dropped() {
    RECIPES_CALM.run(1);
}

#[test]
fn same_seed_gives_the_same_run_byte_for_byte() {
    let trace = |seed| {
        let mut world = RECIPES.world(seed);
        world.trace.text = Some(String::new());
        RECIPES.play(&mut world);
        (world.trace.text.take().unwrap(), world.trace.checksum, world.counts.clone())
    };
    let (first, second) = (trace(1), trace(1));
    assert!(first.0.len() > 100_000, "the trace is short");
    assert!(first == second, "one seed gave two different runs");
    assert_ne!(first.1, trace(2).1, "two seeds gave the same run");
}
