//! The shipped recipes in virtual time: see `tenure_lab::recipes`.
//!
//! `TENURE_SEEDS=1000 cargo nextest run --release -p tenure-lab --test recipes` runs more seeds than the
//! usual few. A run that fails prints the one command that shows it again.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure_lab::{
    cluster::{
        Canary,
        catalogue::{RECIPES, RECIPES_CALM, RECIPES_FIVE, RECIPES_MEMBERS, RECIPES_PROGRAMS},
        scenario::Scenario,
    },
    engine::Counts,
    invariants,
    recipes::town,
};

fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match (number("TENURE_SEED"), number("TENURE_SEEDS")) {
        (Some(first), count) => first..=first + count.unwrap_or(1) - 1,
        (None, count) => 1..=count.unwrap_or(usual),
    }
}

/// What was switched on must have struck, and every judge must have had something to judge.
fn run(scenario: &Scenario, usual: u64) {
    let mut total = Counts::default();
    for seed in seeds(usual) {
        total.add(&scenario.run(seed, None).counts);
    }
    if *seeds(usual).end() >= usual {
        total.assert_all(scenario.faults.iter().map(|fault| fault.name()));
        if scenario.programs.is_some_and(|cast| cast.rough) {
            total.assert_all(town::FAULTS);
            total.assert_all(["lost", "session_over", "drained", "frozen"]);
        }
        total.assert_all(invariants::expected(scenario));
        total.assert_all(["won", "locked", "worked", "released", "dropped", "closed"]);
        total.assert_all(["guarded_write", "not_waited", "withdrawn", "ruled"]);
    }
    println!("{}: {total:?}", scenario.name);
}

#[test]
fn who_believes_is_right_when_nothing_goes_wrong() {
    run(&RECIPES_CALM, 4);
}

#[test]
fn who_believes_is_right_whatever_happens_to_programs() {
    run(&RECIPES_PROGRAMS, 8);
}

#[test]
fn who_believes_is_right_whatever_happens_to_members() {
    run(&RECIPES_MEMBERS, 10);
}

#[test]
fn who_believes_is_right_whatever_goes_wrong() {
    run(&RECIPES, 10);
}

#[test]
fn who_believes_is_right_whatever_goes_wrong_with_five() {
    run(&RECIPES_FIVE, 8);
}

/// Runs a scenario with a planted bug until something is found, which must be this.
fn finds(canary: Canary, expected: &str) {
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

/// So many seeds may pass before a planted bug shows.
const SEEDS_MAX: u64 = 20;

#[test]
fn a_clock_that_runs_slow_is_found() {
    finds(Canary::SlowPrograms, "one_holder");
}

#[test]
fn an_observer_that_misses_something_is_found() {
    finds(Canary::BlindObservers, "tenures_seen");
}

#[test]
fn a_write_without_a_guard_is_found() {
    finds(Canary::UnguardedWrites, "one_writer");
}

#[test]
fn a_holder_that_does_not_listen_is_found() {
    finds(Canary::StubbornHolders, "one_holder");
}

/// A seed that once found something.
#[test]
fn who_walked_away_from_a_campaign_may_campaign_again_at_once() {
    RECIPES_CALM.run(1, None);
}

#[test]
fn the_same_seed_gives_the_same_run_byte_for_byte() {
    let trace = |seed| {
        let mut world = RECIPES.world(seed);
        world.trace.text = Some(String::new());
        RECIPES.play(&mut world);
        (world.trace.text.take().unwrap(), world.trace.checksum, world.counts.clone())
    };
    let (first, second) = (trace(1), trace(1));
    assert!(first.0.len() > 100_000, "the trace tells little");
    assert!(first == second, "one seed gave two different runs");
    assert_ne!(first.1, trace(2).1, "two seeds gave the same run");
}
