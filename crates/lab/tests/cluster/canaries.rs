//! Planted bugs that the invariants must find. One that survives says that an invariant sleeps.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure_lab::{
    cluster::{
        Canary, World,
        catalogue::{BAD_DISKS, BAD_NET, CALM, CHANGING_CALM, CRASHES, PARTITIONS, ROUGH},
        scenario::Scenario,
    },
    engine::ms,
};

/// So many seeds may pass before the bug shows.
const SEEDS_MAX: u64 = 40;

/// Runs a scenario in a house with a bug until something is found, which must be one of these.
fn finds(canary: Canary, scenario: &Scenario, expected: &[&str]) {
    finds_by(canary, expected, |seed| {
        scenario.run(seed, Some(canary));
    });
}

fn finds_by(canary: Canary, expected: &[&str], run: impl Fn(u64)) {
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=SEEDS_MAX).find_map(|seed| {
        let cause = catch_unwind(AssertUnwindSafe(|| run(seed))).err()?;
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

/// A new leader wins with one vote, and the voter dies at once. Who asks it next, for the same term,
/// must be refused.
fn two_ask_for_one_vote(seed: u64, canary: Option<Canary>) {
    let mut world = World::new(seed, 3);
    world.canary = canary;
    world.start_all();
    world.must_lead_within(ms(1500));
    world.run(ms(300));
    let old = world.leader().unwrap();
    world.isolate(old);
    // One entry that nobody else has: the voter cannot win against it.
    let put = world.plain_put("alone");
    world.ask(world.clients.len(), old, put);
    let deposed = |world: &mut World| world.leader().is_some_and(|leader| leader != old);
    world.run_until(ms(2500), deposed).expect("the others choose another");
    let new = world.leader().unwrap();
    let voter = world.numbers().into_iter().find(|number| ![old, new].contains(number)).unwrap();
    world.crash(voter);
    world.net.links.mend_all();
    world.isolate(new);
    world.start(voter);
    world.run(ms(3000));
    world.heal();
    world.must_serve_within(ms(3000));
}

#[test]
fn a_forgotten_vote_is_found() {
    two_ask_for_one_vote(1, None);
    finds_by(Canary::VoteForgotten, &["one_leader"], |seed| {
        two_ask_for_one_vote(seed, Some(Canary::VoteForgotten));
    });
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

#[test]
fn a_change_that_a_snapshot_forgets_is_found() {
    finds(Canary::MarkForgetsChange, &CHANGING_CALM, &["one_roll"]);
}
