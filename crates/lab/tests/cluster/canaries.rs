//! Planted bugs that the invariants must find, in the house and in the shipped replica. One that survives
//! says that an invariant sleeps.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use tenure_api::LeaseId;
use tenure_lab::{
    cluster::{
        Canary, World,
        catalogue::{
            BAD_DISKS, BAD_NET, CALM, CHANGING_CALM, CRASHES, LINES, LINES_CALM, PARTITIONS,
            RESTORED, ROUGH, ROUGH_FIVE,
        },
        scenario::Scenario,
    },
    engine::ms,
};
use tenure_replica::{
    Request,
    canary::{Canary as Shipped, plant},
    command::{Ask, Command, Join, LineCommand, Rule},
    queue::Mode,
};

use crate::leases::{leader_goes_silent, leader_pauses, renewal_under_way};

/// So many seeds may pass before the bug shows.
const SEEDS_MAX: u64 = 40;

/// Runs a scenario in a house with a bug until something is found, which must be one of these.
fn finds(canary: Canary, scenario: &Scenario, expected: &[&str]) {
    finds_by(canary, expected, |seed| {
        scenario.run(seed, Some(canary));
    });
}

fn finds_by(canary: Canary, expected: &[&str], run: impl Fn(u64)) {
    finds_any(&format!("{canary:?}"), expected, run);
}

fn finds_any(canary: &str, expected: &[&str], run: impl Fn(u64)) {
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=SEEDS_MAX).find_map(|seed| {
        let cause = catch_unwind(AssertUnwindSafe(|| run(seed))).err()?;
        let text = cause.downcast_ref::<String>().cloned();
        Some(text.or(cause.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default())
    });
    let _ = std::panic::take_hook();
    let found = found.unwrap_or_else(|| panic!("{canary} was not found in {SEEDS_MAX} seeds"));
    assert!(
        expected.iter().any(|expected| found.contains(expected)),
        "{canary} was found by something else: {found}"
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
    finds(Canary::ForwardedTwice, &CALM, &["written_once", "one_answer", "heals"]);
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

/// The same, with a mistake in the shipped replica itself.
fn finds_shipped(canary: Shipped, scenario: &Scenario, expected: &[&str]) {
    finds_shipped_by(canary, expected, |seed| {
        scenario.run(seed, None);
    });
}

fn finds_shipped_by(canary: Shipped, expected: &[&str], run: impl Fn(u64)) {
    let _planted = plant(canary);
    finds_any(&format!("{canary:?}"), expected, run);
}

#[test]
fn a_skipped_flush_is_found() {
    finds_shipped(Shipped::SkippedFlush, &CRASHES, &["durable_commit", "agreement", "one_leader"]);
}

#[test]
fn a_leader_that_counts_itself_too_early_is_found() {
    finds_shipped(Shipped::EarlyPersist, &BAD_DISKS, &["durable_commit"]);
}

#[test]
fn a_vote_that_is_not_written_is_found() {
    finds_shipped_by(Shipped::VoteNotPersisted, &["one_leader"], |seed| {
        two_ask_for_one_vote(seed, None);
    });
}

#[test]
fn a_vote_for_somebody_who_lacks_what_was_committed_is_found() {
    finds_shipped(Shipped::VoteForAnybody, &PARTITIONS, &["leader_completeness"]);
}

#[test]
fn a_newcomer_that_overtakes_its_equals_is_found() {
    finds_shipped(Shipped::JumpsTheLine, &LINES_CALM, &["fifo"]);
}

#[test]
fn a_member_that_never_sleeps_is_found() {
    finds_shipped(Shipped::NeverSleeps, &CALM, &["no_spin"]);
}

#[test]
fn a_read_that_asked_nobody_is_found() {
    finds_shipped(Shipped::ReadUnasked, &PARTITIONS, &["linearizable"]);
}

#[test]
fn a_read_that_misses_what_others_have_counted_is_found() {
    finds_shipped(Shipped::ReadUncounted, &ROUGH, &["linearizable"]);
}

#[test]
fn a_leader_that_vouches_for_what_it_has_not_written_is_found() {
    finds_shipped(Shipped::VouchesUnwritten, &BAD_DISKS, &["durable_commit"]);
}

#[test]
fn a_leader_that_vouches_where_two_are_no_majority_is_found() {
    finds_shipped(Shipped::VouchesInCrowds, &ROUGH_FIVE, &["durable_commit"]);
}

#[test]
fn a_batch_that_was_done_before_is_found() {
    finds_shipped(Shipped::BatchTwice, &BAD_NET, &["written_once"]);
}

#[test]
fn an_expiry_that_comes_too_late_is_found() {
    finds_shipped_by(Shipped::StaleExpiry, &["leases_kept"], renewal_under_way);
}

#[test]
fn a_lease_that_begins_anew_with_every_leader_is_found() {
    finds_shipped_by(Shipped::TtlReset, &["leases_end"], |seed| {
        let mut world = World::new(seed, 3);
        world.start_all();
        world.must_lead_within(ms(1500));
        world.run(ms(2500));
        let leader = world.leader().unwrap();
        let grant = Command::LeaseGrant { id: LeaseId(7), ttl_secs: 2 };
        world.probe(leader, Request::Write(grant)).unwrap();
        world.run(ms(500));
        world.crash(leader);
        world.run(ms(2500));
        world.judge_leases_end(ms(600));
    });
}

#[test]
fn time_without_a_leader_that_counts_is_found() {
    finds_shipped_by(Shipped::LeaderlessTimeCounts, &["leases_survive"], leader_goes_silent);
}

#[test]
fn a_pause_that_counts_is_found() {
    finds_shipped_by(Shipped::PauseCounts, &["leases_survive"], leader_pauses);
}

#[test]
fn an_unguarded_unlock_is_found() {
    finds_shipped(Shipped::UnguardedUnlock, &LINES_CALM, &["freed_by_its_token"]);
}

#[test]
fn a_token_that_is_used_again_is_found() {
    finds_shipped(Shipped::TokenReused, &LINES_CALM, &["tokens_grow"]);
}

#[test]
fn a_lock_delay_that_is_forgotten_is_found() {
    finds_shipped(Shipped::DelayForgotten, &LINES, &["one_believer"]);
}

#[test]
fn a_waiter_that_does_not_look_at_its_own_key_is_found() {
    finds_shipped(Shipped::OwnKeyNotReread, &LINES, &["held_is_true"]);
}

#[test]
fn a_request_that_acts_twice_is_found() {
    // It was taken away between the two: the second must not take it again.
    finds_shipped_by(Shipped::RequestTwice, &["acts_once"], |seed| {
        let mut world = World::new(seed, 3);
        world.start_all();
        world.must_lead_within(ms(1500));
        world.run(ms(300));
        let leader = world.leader().unwrap();
        let mut say = |command| {
            let said = Request::Write(Command::Line(command));
            world.probe(leader, said).unwrap();
        };
        let (id, name) = (LeaseId(7), Bytes::from_static(b"n"));
        let identity = "somebody".to_owned();
        say(LineCommand::Open { id, ttl_ms: 5000, identity, fast_release: false, by: 1 });
        let join = Ask::Join(Join {
            names: vec![name.clone()],
            value: Bytes::new(),
            mode: Mode::Exclusive,
            priority: 0,
            preempts: false,
            no_overlap: false,
            try_only: false,
            unhealthy: false,
            metadata: vec![],
        });
        say(LineCommand::Ask { session: id, request: 1, ask: join.clone() });
        say(LineCommand::Rule(Rule::Evict { name, token: None }));
        say(LineCommand::Ask { session: id, request: 1, ask: join });
    });
}

#[test]
fn a_watch_with_a_gap_is_found() {
    finds_shipped(Shipped::WatchGap, &ROUGH, &["watch_story"]);
}

#[test]
fn a_queue_that_stands_still_is_found() {
    finds_shipped(Shipped::QueueStuck, &LINES_CALM, &["queue_advances"]);
}

#[test]
fn a_follower_that_never_campaigns_is_found() {
    finds_shipped(Shipped::NeverCampaigns, &CRASHES, &["heals"]);
}

/// A raft leader that is cut off writes on, further than the others get under the next one. Then it hears from
/// the one after that, of entries that come behind some that it does not have.
fn gone_astray(seed: u64) {
    let mut world = World::new(seed, 3);
    world.start_all();
    world.must_lead_within(ms(1500));
    world.run(ms(300));
    let old = world.leader().unwrap();
    world.isolate(old);
    for _ in 0..20 {
        let put = world.plain_put("astray");
        world.ask(world.clients.len(), old, put);
        world.run(ms(2));
    }
    let deposed = |world: &mut World| world.leader().is_some_and(|leader| leader != old);
    world.run_until(ms(2500), deposed).expect("the others choose another");
    let new = world.leader().unwrap();
    world.probe(new, world.plain_put("kept")).unwrap();
    world.crash(new);
    world.net.links.mend_all();
    world.run(ms(3000));
    world.heal();
    world.must_serve_within(ms(3000));
}

#[test]
fn a_follower_that_takes_whatever_it_is_sent_is_found() {
    gone_astray(1);
    finds_shipped_by(Shipped::AppendsAnywhere, &["log_matching"], gone_astray);
}

#[test]
fn a_revision_that_goes_back_is_found() {
    finds_shipped(Shipped::RevisionGivenBack, &CALM, &["growth"]);
}

#[test]
fn a_log_that_is_applied_by_the_own_clock_is_found() {
    // The members would find it themselves, by their audits.
    finds_shipped_by(Shipped::OwnClock, &["agreement"], |seed| {
        let mut world = World::with(seed, 3, |config| config.audit_interval = ms(3_600_000));
        LINES_CALM.play(&mut world);
    });
}

#[test]
fn a_restored_cluster_that_does_not_leap_is_found() {
    finds_shipped(Shipped::RestoredInPlace, &RESTORED, &["tokens_grow"]);
}
