//! Planted bugs that the invariants must find, in the host and in the shipped replica. One that is not found shows that an
//! invariant does not work.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use tenure_api::LeaseId;
use tenure_lab::{
    Canary,
    cluster::{
        World,
        catalogue::{
            BAD_DISKS, BAD_NET, CALM, CHANGING, CRASHES, ELECTIONS, ELECTIONS_CALM, MOVING,
            PARTITIONS, RECIPES_PROGRAMS, RESTORED, ROTTEN_DISKS, ROUGH, ROUGH_FIVE, USERS,
        },
        scenario::Scenario,
    },
    engine::ms,
};
use tenure_replica::{
    Operation,
    command::{AdminCommand, Command, ElectionCommand, JoinSpec, SessionRequest},
    election::Mode,
};

use crate::{
    leases::{
        all_are_cut_off, late_replay_leads, leader_goes_silent, leader_hears_nobody,
        leader_is_cut_off, leader_pauses, renewal_at_the_deadline,
    },
    members::{members_change_after_one_direction_was_reset, single_voter_restarts},
    service::reads_over_slow_links,
};

/// How many seeds may pass before the bug is found.
const SEEDS_MAX: u64 = 40;

/// Plants a bug and runs a scenario until an invariant fails, which must be one of these.
fn finds(canary: Canary, scenario: &Scenario, expected: &[&str]) {
    finds_by(canary, expected, |seed| {
        scenario.run(seed);
    });
}

fn finds_by(canary: Canary, expected: &[&str], run: impl Fn(u64)) {
    let _planted = canary.plant();
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
fn canary_disk_that_lies_is_found() {
    finds(Canary::DiskLies, &CRASHES, &["durable_commit", "durable_term"]);
}

#[test]
fn canary_disk_that_acknowledges_out_of_order_is_found() {
    finds(Canary::DiskAcknowledgesOutOfOrder, &BAD_DISKS, &["durable_commit"]);
}

/// A new leader wins with one vote, and the voter crashes at once. The next candidate that asks it, for the same term, must
/// be refused.
fn two_ask_for_one_vote(seed: u64) {
    let mut world = World::new(seed, 3);
    let old = world.started(ms(300));
    world.isolate(old);
    // One entry that no other member has: the voter cannot win against it.
    let put = world.plain_put("alone");
    world.send_request(world.clients.len(), old, put);
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
fn canary_forgotten_vote_is_found() {
    two_ask_for_one_vote(1);
    finds_by(Canary::VoteForgotten, &["one_leader"], two_ask_for_one_vote);
}

#[test]
fn canary_stale_read_is_found() {
    finds(Canary::StaleReads, &PARTITIONS, &["linearizable"]);
}

#[test]
fn canary_batch_forwarded_twice_is_found() {
    // The replica may be the first to see that a batch under its name is not its own.
    let replica = "only this member makes its batches";
    finds(Canary::ForwardedTwice, &CALM, &["written_once", "one_answer", "heals", replica]);
}

#[test]
fn canary_member_clock_at_double_speed_is_found() {
    finds(Canary::ClockRuns, &CALM, &["leases_kept"]);
}

#[test]
fn canary_lost_watch_event_is_found() {
    finds(Canary::NewsLost, &CALM, &["watch_history"]);
}

#[test]
fn canary_mislabelled_snapshot_is_found() {
    finds(Canary::SnapshotMislabelled, &ROUGH, &["agreement", "written_once", "one_answer"]);
}

#[test]
fn canary_miscounted_deletion_is_found() {
    finds(Canary::DeletionMiscounted, &CALM, &["whole_answers"]);
}

#[test]
fn canary_second_answer_is_found() {
    finds(Canary::AnsweredTwice, &CALM, &["one_answer"]);
}

#[test]
fn canary_missing_answer_is_found() {
    finds(Canary::AnswerSwallowed, &BAD_NET, &["one_answer"]);
}

#[test]
fn canary_snapshot_that_forgets_a_member_change_is_found() {
    // The replica itself notices a change that ends and was never begun.
    let expected = ["one_membership", "a change is finished only if one was begun"];
    finds(Canary::MarkForgetsChange, &CHANGING, &expected);
}

#[test]
fn canary_rights_that_outlive_their_role_are_found() {
    finds(Canary::RevokedRightsStay, &USERS, &["rights_kept"]);
}

#[test]
fn canary_presence_restored_only_by_answers_is_found() {
    let canary = Canary::OnlyAnswersReturn;
    finds_by(canary, &["heals"], |seed| {
        members_change_after_one_direction_was_reset(seed, true);
    });
    finds(canary, &PARTITIONS, &["heals"]);
}

#[test]
fn canary_skipped_flush_is_found() {
    let expected = ["durable_commit", "durable_term", "agreement", "one_leader"];
    finds(Canary::SkippedFlush, &CRASHES, &expected);
}

#[test]
fn canary_message_before_a_durable_vote_is_found() {
    finds_by(Canary::SpeaksBeforeVote, &["durable_term"], single_voter_restarts);
}

#[test]
fn canary_forgotten_read_floor_is_found() {
    // With the usual settings: the round must be confirmed in the very call in which the raft leader steps down.
    finds_by(Canary::FloorForgotten, &["read_floor"], |seed| {
        MOVING.play(&mut World::new(seed, 3));
    });
}

#[test]
fn canary_lost_late_read_round_is_found() {
    finds_by(Canary::LateRoundLost, &["heals"], reads_over_slow_links);
}

#[test]
fn canary_leader_that_counts_itself_too_early_is_found() {
    finds(Canary::EarlyPersist, &BAD_DISKS, &["durable_commit"]);
}

#[test]
fn canary_vote_that_is_not_persisted_is_found() {
    finds_by(Canary::VoteNotPersisted, &["one_leader"], two_ask_for_one_vote);
}

#[test]
fn canary_vote_for_an_outdated_log_is_found() {
    finds(Canary::VoteForAnybody, &PARTITIONS, &["leader_completeness"]);
}

#[test]
fn canary_candidate_that_overtakes_its_equals_is_found() {
    finds(Canary::OvertakesEqual, &ELECTIONS_CALM, &["fifo"]);
}

#[test]
fn canary_member_that_never_sleeps_is_found() {
    finds(Canary::NeverSleeps, &CALM, &["no_spin"]);
}

#[test]
fn canary_read_without_a_quorum_is_found() {
    finds(Canary::ReadUnasked, &PARTITIONS, &["linearizable"]);
}

#[test]
fn canary_read_that_misses_vouched_entries_is_found() {
    finds(Canary::ReadUncounted, &ROUGH, &["linearizable", "read_floor"]);
}

#[test]
fn canary_vouch_for_unwritten_entries_is_found() {
    finds(Canary::VouchesUnwritten, &BAD_DISKS, &["durable_commit"]);
}

#[test]
fn canary_vouch_where_two_are_no_majority_is_found() {
    finds(Canary::VouchesInCrowds, &ROUGH_FIVE, &["durable_commit"]);
}

#[test]
fn canary_batch_applied_twice_is_found() {
    finds(Canary::BatchTwice, &BAD_NET, &["written_once"]);
}

#[test]
fn canary_stale_expiry_is_found() {
    finds_by(Canary::StaleExpiry, &["leases_kept"], renewal_at_the_deadline);
}

#[test]
fn canary_lease_reset_by_every_leader_is_found() {
    finds_by(Canary::TtlReset, &["leases_end"], |seed| {
        let mut world = World::new(seed, 3);
        let leader = world.started(ms(2500));
        let grant = Command::LeaseGrant { id: LeaseId(7), ttl_secs: 2 };
        world.probe(leader, Operation::Write(grant)).unwrap();
        world.run(ms(500));
        world.crash(leader);
        world.run(ms(2500));
        world.check_leases_end(ms(600));
    });
}

#[test]
fn canary_lease_that_counts_leaderless_time_is_found() {
    finds_by(Canary::LeaderlessTimeCounts, &["leases_survive"], leader_goes_silent);
    finds(Canary::LeaderlessTimeCounts, &ELECTIONS, &["leases_survive"]);
}

#[test]
fn canary_lease_that_counts_isolated_time_is_found() {
    finds_by(Canary::CutOffTimeCounts, &["leases_survive"], leader_is_cut_off);
    finds(Canary::CutOffTimeCounts, &ELECTIONS, &["leases_survive"]);
}

#[test]
fn canary_leader_that_hides_its_isolation_is_found() {
    finds_by(Canary::AloneUntold, &["leases_survive"], leader_hears_nobody);
}

#[test]
fn canary_lease_of_unknown_age_is_found() {
    finds_by(Canary::AgeUnknown, &["leases_end"], late_replay_leads);
}

#[test]
fn canary_verdict_without_a_quorum_is_found() {
    finds_by(Canary::VerdictUnasked, &["leases_survive"], all_are_cut_off);
}

#[test]
fn canary_lease_that_counts_a_pause_is_found() {
    finds_by(Canary::PauseCounts, &["leases_survive"], |seed| leader_pauses(seed, ms(200)));
}

#[test]
fn canary_unguarded_unlock_is_found() {
    finds(Canary::UnguardedUnlock, &ELECTIONS_CALM, &["freed_by_its_token"]);
}

#[test]
fn canary_reused_token_is_found() {
    finds(Canary::TokenReused, &ELECTIONS_CALM, &["tokens_grow"]);
}

#[test]
fn canary_forgotten_lock_delay_is_found() {
    finds(Canary::DelayForgotten, &ELECTIONS, &["one_believer"]);
}

#[test]
fn canary_waiter_that_does_not_reread_its_key_is_found() {
    finds(Canary::OwnKeyNotReread, &ELECTIONS, &["held_is_true"]);
}

#[test]
fn canary_request_that_acts_twice_is_found() {
    // The candidacy was taken away between the two requests: the second must not take it again.
    finds_by(Canary::RequestTwice, &["acts_once"], |seed| {
        let mut world = World::new(seed, 3);
        let leader = world.started(ms(300));
        let mut say = |command| {
            let said = Operation::Write(Command::Election(command));
            world.probe(leader, said).unwrap();
        };
        let (id, name) = (LeaseId(7), Bytes::from_static(b"n"));
        let identity = "program".to_owned();
        say(ElectionCommand::Open {
            id,
            ttl_ms: 5000,
            identity,
            fast_release: false,
            by: 1,
            secret: None,
        });
        let join = SessionRequest::Join(JoinSpec::one(name.clone(), Mode::Exclusive));
        say(ElectionCommand::Request { session: id, number: 1, request: join.clone() });
        say(ElectionCommand::Admin(AdminCommand::Evict { name, token: None }));
        say(ElectionCommand::Request { session: id, number: 1, request: join });
    });
}

#[test]
fn canary_watch_with_a_gap_is_found() {
    finds(Canary::WatchGap, &ROUGH, &["watch_history"]);
}

#[test]
fn canary_stuck_election_is_found() {
    finds(Canary::ElectionStuck, &ELECTIONS_CALM, &["election_advances"]);
}

#[test]
fn canary_follower_that_never_campaigns_is_found() {
    finds(Canary::NeverCampaigns, &CRASHES, &["heals"]);
}

/// An isolated raft leader appends more entries than the others do under the next one. Then it receives from the leader after
/// that, behind entries that it does not have.
fn gone_astray(seed: u64) {
    let mut world = World::new(seed, 3);
    let old = world.started(ms(300));
    world.isolate(old);
    for _ in 0..20 {
        let put = world.plain_put("astray");
        world.send_request(world.clients.len(), old, put);
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
fn canary_follower_that_appends_anything_is_found() {
    gone_astray(1);
    finds_by(Canary::AppendsAnywhere, &["log_matching"], gone_astray);
}

#[test]
fn canary_revision_that_goes_back_is_found() {
    finds(Canary::RevisionGivenBack, &CALM, &["growth"]);
}

#[test]
fn canary_log_applied_by_the_own_clock_is_found() {
    // The members would find it themselves, by their audits.
    finds_by(Canary::OwnClock, &["agreement", "whole_answers"], |seed| {
        let mut world = World::with(seed, 3, |config| config.audit_interval = ms(3_600_000));
        ELECTIONS_CALM.play(&mut world);
    });
}

#[test]
fn canary_restore_without_a_revision_leap_is_found() {
    finds(Canary::RestoredInPlace, &RESTORED, &["tokens_grow"]);
}

#[test]
fn canary_damaged_log_tail_that_is_cut_is_found() {
    finds(Canary::DamagedTailCut, &ROTTEN_DISKS, &["the disk lost what was flushed"]);
}

#[test]
fn canary_slow_program_clock_is_found() {
    finds(Canary::SlowPrograms, &RECIPES_PROGRAMS, &["one_holder"]);
}

#[test]
fn canary_observer_that_misses_events_is_found() {
    finds(Canary::BlindObservers, &RECIPES_PROGRAMS, &["tenures_seen"]);
}

#[test]
fn canary_unguarded_write_is_found() {
    finds(Canary::UnguardedWrites, &RECIPES_PROGRAMS, &["one_writer"]);
}

#[test]
fn canary_holder_that_ignores_its_loss_is_found() {
    finds(Canary::StubbornHolders, &RECIPES_PROGRAMS, &["one_holder"]);
}
