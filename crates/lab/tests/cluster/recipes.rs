//! The shipped recipes in virtual time: see `tenure_lab::recipes`.

use tenure_lab::{
    cluster::{
        catalogue::{RECIPES, RECIPES_CALM, RECIPES_FIVE, RECIPES_MEMBERS, RECIPES_PROGRAMS},
        scenario::Scenario,
    },
    recipes::simulation,
};

use crate::holds;

fn run(scenario: &Scenario, usual: u64) {
    let mut also = vec!["won", "locked", "worked", "released", "dropped", "closed"];
    also.extend(["guarded_write", "not_waited", "withdrawn", "ruled"]);
    if scenario.programs.is_some_and(|program_mix| program_mix.rough) {
        also.extend(simulation::PROGRAM_FAULTS);
        also.extend(["lost", "session_over", "drained", "frozen"]);
    }
    holds(scenario, usual, &also);
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
