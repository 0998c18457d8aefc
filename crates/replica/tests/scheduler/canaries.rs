//! Planted bugs that the invariants must find. One that survives says that an invariant sleeps.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    chance::{BAD_DISKS, BAD_NET, CALM, CRASHES, PARTITIONS, ROUGH},
    world::{Canary, scenario::Scenario},
};

/// So many seeds may pass before the bug shows.
const SEEDS_MAX: u64 = 40;

/// Runs a scenario in a house with a bug until something is found, which must be one of these.
fn finds(canary: Canary, scenario: &Scenario, expected: &[&str]) {
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=SEEDS_MAX).find_map(|seed| {
        let run = catch_unwind(AssertUnwindSafe(|| scenario.run(seed, Some(canary))));
        let cause = run.err()?;
        let text = cause.downcast_ref::<String>().cloned();
        Some(text.or(cause.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default())
    });
    let _ = std::panic::take_hook();
    let found = found.unwrap_or_else(|| panic!("{canary:?} was not found in {SEEDS_MAX} seeds"));
    assert!(
        expected.iter().any(|expected| found.contains(expected)),
        "{canary:?} was found by something else: {found}"
    );
}

#[test]
fn a_disk_that_lies_is_found() {
    finds(Canary::DiskLies, &CRASHES, &["durable_commit"]);
}

#[test]
fn a_disk_that_acknowledges_out_of_order_is_found() {
    finds(Canary::DiskAcknowledgesOutOfOrder, &BAD_DISKS, &["durable_commit"]);
}

#[test]
fn a_forgotten_vote_is_found() {
    finds(Canary::VoteForgotten, &CRASHES, &["one_leader"]);
}

#[test]
fn a_stale_read_is_found() {
    finds(Canary::StaleReads, &PARTITIONS, &["linearizable"]);
}

#[test]
fn a_batch_that_is_done_twice_is_found() {
    finds(Canary::ForwardedTwice, &CALM, &["written_once"]);
}

#[test]
fn a_clock_that_runs_away_is_found() {
    finds(Canary::ClockRuns, &CALM, &["leases_kept"]);
}

#[test]
fn a_lost_event_is_found() {
    finds(Canary::NewsLost, &CALM, &["watch_story"]);
}

#[test]
fn a_mislabelled_snapshot_is_found() {
    finds(Canary::SnapshotMislabelled, &ROUGH, &["agreement", "written_once", "one_answer"]);
}

#[test]
fn a_second_answer_is_found() {
    finds(Canary::AnsweredTwice, &CALM, &["one_answer"]);
}

#[test]
fn an_answer_that_never_comes_is_found() {
    finds(Canary::AnswerSwallowed, &BAD_NET, &["one_answer"]);
}
