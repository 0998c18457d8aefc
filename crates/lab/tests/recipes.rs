//! The shipped recipes in virtual time: see `tenure_lab::recipes`.
//!
//! `TENURE_SEEDS=1000 cargo nextest run --release -p tenure-lab --test recipes` runs more seeds than the
//! usual few. A run that fails prints the one command that shows it again.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure_lab::{
    cluster::{
        LabCanary,
        catalogue::{RECIPES, RECIPES_CALM, RECIPES_FIVE, RECIPES_MEMBERS, RECIPES_PROGRAMS},
        scenario::Scenario,
    },
    engine::RunCounts,
    invariants,
    recipes::simulation,
};

fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match (number("TENURE_SEED"), number("TENURE_SEEDS")) {
        (Some(first), count) => first..=first + count.unwrap_or(1) - 1,
        (None, count) => 1..=count.unwrap_or(usual),
    }
}

/// Every enabled fault must have had an effect, and every invariant must have been checked.
fn run(scenario: &Scenario, usual: u64) {
    let mut total = RunCounts::default();
    for seed in seeds(usual) {
        total.add(&scenario.run(seed, None).counts);
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

/// Runs a scenario with a planted bug until an invariant fails, which must be this one.
fn finds(canary: LabCanary, expected: &str) {
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=SEEDS_MAX).find_map(|seed| {
        let run = AssertUnwindSafe(|| drop(RECIPES_PROGRAMS.run(seed, Some(canary))));
        let cause = catch_unwind(run).err()?;
        Some(cause.downcast_ref::<String>().cloned().unwrap_or_default())
    });
    let _ = std::panic::take_hook();
    let found = found.unwrap_or_else(|| panic!("{canary:?} was not found in {SEEDS_MAX} seeds"));
    assert!(found.contains(expected), "{canary:?} was found by something else: {found}");
}

/// How many seeds may pass before a planted bug is found.
const SEEDS_MAX: u64 = 20;

#[test]
fn canary_slow_program_clock_is_found() {
    finds(LabCanary::SlowPrograms, "one_holder");
}

#[test]
fn canary_observer_that_misses_events_is_found() {
    finds(LabCanary::BlindObservers, "tenures_seen");
}

#[test]
fn canary_unguarded_write_is_found() {
    finds(LabCanary::UnguardedWrites, "one_writer");
}

#[test]
fn canary_holder_that_ignores_its_loss_is_found() {
    finds(LabCanary::StubbornHolders, "one_holder");
}

/// A seed that once found something.
#[test]
fn campaign_can_be_repeated_at_once_after_it_was_dropped() {
    RECIPES_CALM.run(1, None);
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
