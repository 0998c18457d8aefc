//! The shipped recipes in virtual time: see `tenure_lab::recipes`.
//!
//! `TENURE_SEEDS=1000 cargo nextest run --release -p tenure-lab --test recipes` runs more seeds than the
//! usual few. A run that fails prints the one command that shows it again.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure_lab::{
    cluster::{World, faults::Fault},
    engine::{Counts, ms},
    invariants::{one_believer, one_holder, tenures_seen},
    recipes::{scenario::Scenario, script::Canary, town},
};

const CALM: Scenario = Scenario {
    name: "recipes_calm",
    members: 3,
    faults: &[],
    rough_programs: false,
    rough_for: ms(4000),
    candidates: 3,
    swift: 2,
    nobles: 3,
    electors: 2,
    lockers: 3,
    readers_and_writers: 4,
    semaphores: 4,
    multis: 3,
    observers: 1,
};

/// Only programs have trouble.
const ROUGH_PROGRAMS: Scenario =
    Scenario { name: "rough_programs", rough_programs: true, rough_for: ms(8000), ..CALM };

/// Only members have.
const ROUGH_MEMBERS: Scenario =
    Scenario { name: "rough_members", faults: &Fault::ALL, rough_for: ms(8000), ..CALM };

/// Everybody has.
const ROUGH: Scenario = Scenario { name: "recipes_rough", rough_programs: true, ..ROUGH_MEMBERS };

const ROUGH_FIVE: Scenario = Scenario { name: "recipes_rough_five", members: 5, ..ROUGH };

const ALL: [Scenario; 5] = [CALM, ROUGH_PROGRAMS, ROUGH_MEMBERS, ROUGH, ROUGH_FIVE];

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
        if scenario.rough_programs {
            total.assert_all(town::FAULTS);
            total.assert_all(["lost", "session_over"]);
        }
        total.assert_all([one_believer::NAME, one_holder::NAME, tenures_seen::NAME]);
        total.assert_all(["won", "locked", "worked", "released", "dropped", "closed"]);
        total.assert_all([
            "guarded_write",
            "not_waited",
            "withdrawn",
            "ruled",
            "drained",
            "frozen",
        ]);
    }
    println!("{}: {total:?}", scenario.name);
}

#[test]
fn who_believes_is_right_when_nothing_goes_wrong() {
    run(&CALM, 4);
}

#[test]
fn who_believes_is_right_whatever_happens_to_programs() {
    run(&ROUGH_PROGRAMS, 12);
}

#[test]
fn who_believes_is_right_whatever_happens_to_members() {
    run(&ROUGH_MEMBERS, 12);
}

#[test]
fn who_believes_is_right_whatever_goes_wrong() {
    run(&ROUGH, 16);
}

#[test]
fn who_believes_is_right_whatever_goes_wrong_with_five() {
    run(&ROUGH_FIVE, 8);
}

/// Runs a scenario with a planted bug until something is found, which must be this.
fn finds(canary: Canary, expected: &str) {
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=SEEDS_MAX).find_map(|seed| {
        let run = AssertUnwindSafe(|| drop(ROUGH_PROGRAMS.run(seed, Some(canary))));
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
    finds(Canary::SlowClock, "one_holder");
}

#[test]
fn an_observer_that_misses_something_is_found() {
    finds(Canary::Blind, "tenures_seen");
}

#[test]
fn a_write_without_a_guard_is_found() {
    finds(Canary::Unguarded, "one_believer");
}

#[test]
fn a_holder_that_does_not_listen_is_found() {
    finds(Canary::Stubborn, "one_holder");
}

#[test]
fn the_same_seed_gives_the_same_run_byte_for_byte() {
    let trace = |seed| {
        let mut world = World::new(seed, ROUGH.members);
        world.trace.text = Some(String::new());
        ROUGH.play(&mut world, seed, None);
        (world.trace.text.take().unwrap(), world.trace.checksum, world.counts.clone())
    };
    let (first, second) = (trace(1), trace(1));
    assert!(first.0.len() > 100_000, "the trace tells little");
    assert!(first == second, "one seed gave two different runs");
    assert_ne!(first.1, trace(2).1, "two seeds gave the same run");
}

/// Shows one run again: `TENURE_SCENARIO` and `TENURE_SEED` say which.
#[test]
fn replay() {
    let Ok(name) = std::env::var("TENURE_SCENARIO") else { return };
    let scenario = ALL.iter().find(|scenario| scenario.name == name);
    let scenario = scenario.unwrap_or_else(|| panic!("there is no scenario {name}"));
    for seed in seeds(1) {
        println!("{:?}", scenario.run(seed, None).counts);
    }
}
