//! Membership changes.

use tenure_api::{Alarm, AlarmKind, Failure, MemberId};
use tenure_replica::{
    Operation, Outcome, Reply,
    command::{Command, MemberChange},
};

use crate::{holds, seeds, service::started};
use tenure_lab::{
    cluster::{
        World,
        catalogue::{CHANGING, CHANGING_CALM, GROWING},
        clients::RegisterClient,
        member::{MemberNumber, MembershipState, id, peer_url},
        scenario::Scenario,
    },
    engine::ms,
};

const KINDS: [&str; 7] = [
    "learner_added",
    "voter_added",
    "promoted",
    "updated",
    "removed",
    "change_under_way",
    "removed_stops",
];

fn run(scenario: &Scenario, usual: u64) {
    holds(scenario, usual, &KINDS);
}

#[test]
fn membership_changes_hold_without_faults() {
    run(&CHANGING_CALM, 8);
}

#[test]
fn membership_changes_hold_under_all_faults() {
    run(&CHANGING, 24);
}

#[test]
fn membership_of_a_growing_cluster_holds_under_all_faults() {
    run(&GROWING, 24);
}

fn change(world: &mut World, at: MemberNumber, change: MemberChange) -> Result<Vec<u64>, Failure> {
    match world.probe(at, Operation::Write(Command::Members(change)))? {
        Reply::Wrote(Outcome::Members(members)) => {
            Ok(members.iter().map(|member| member.id.0).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn add(number: MemberNumber, is_learner: bool) -> MemberChange {
    MemberChange::Add { id: id(number), peer_urls: vec![peer_url(number)], is_learner }
}

#[test]
fn membership_grows_from_one_to_five_and_shrinks_again() {
    for seed in seeds(4) {
        let (mut world, _, _replay) = started(seed, 1);
        for _ in 0..3 {
            world.add_client(RegisterClient::default());
        }
        for number in 2..=5 {
            assert_eq!(world.new_member(), number);
            let members = change(&mut world, 1, add(number, false)).expect("it grows");
            assert_eq!(members.len() as u64, number);
            let joined = |world: &mut World| {
                let state = world.truth.state();
                let votes = state.voters().count() as u64 == number && state.change.is_none();
                votes && state.has_started(MemberId(number))
            };
            world.run_until(ms(5000), joined).expect("it joins");
        }
        world.must_serve_within(ms(1000));
        for number in [5, 3, 1, 2] {
            let at = if number == 4 { 2 } else { 4 };
            let joined = change(&mut world, at, MemberChange::Remove(id(number)));
            joined.expect("it shrinks");
            let gone =
                |world: &mut World| world.members[&number].membership == MembershipState::Gone;
            world.run_until(ms(3000), gone).expect("it stops");
            world.must_serve_within(ms(1500));
        }
        let last = change(&mut world, 4, MemberChange::Remove(id(4)));
        assert_eq!(last, Err(Failure::NotEnoughStarted));
        world.come_to_rest();
    }
}

/// A wrong address must not cost a single member its majority: it could not even remove it again.
#[test]
fn membership_survives_a_second_member_that_never_starts() {
    for seed in seeds(4) {
        let (mut world, _, _replay) = started(seed, 1);
        let absent = world.new_member();
        world.members.get_mut(&absent).expect("it is known").membership = MembershipState::Gone;
        let never = id(absent);
        let voter = |id, url: &str| MemberChange::Add {
            id,
            peer_urls: vec![url.to_owned()],
            is_learner: false,
        };
        change(&mut world, 1, voter(never, "http://nowhere:1")).expect("it is invited");
        assert_eq!(world.truth.state().voters().count(), 1, "it has no vote yet");
        world.must_serve_within(ms(1000));
        let third = change(&mut world, 1, voter(MemberId(99), "http://nowhere:2"));
        assert_eq!(third, Err(Failure::NotEnoughStarted));
        // The invitation outlives the member that made it.
        world.crash(1);
        world.run(ms(100));
        world.start(1);
        world.must_serve_within(ms(3000));
        assert!(world.truth.state().invited.contains(&never));
        change(&mut world, 1, MemberChange::Remove(never)).expect("it is taken back");
        assert!(world.truth.state().invited.is_empty());

        let new = world.new_member();
        change(&mut world, 1, add(new, false)).expect("another one is invited");
        let votes = |world: &mut World| {
            let state = world.truth.state();
            state.voters().count() == 2 && state.change.is_none() && state.invited.is_empty()
        };
        world.run_until(ms(5000), votes).expect("it votes by itself");
        world.must_serve_within(ms(1000));
        world.come_to_rest();
    }
}

#[test]
fn membership_removal_of_the_raft_leader_leaves_a_short_gap() {
    for seed in seeds(8) {
        let (mut world, leader, _replay) = started(seed, 3);
        let other = 1 + leader % 3;
        let members = change(&mut world, other, MemberChange::Remove(id(leader))).expect("it goes");
        assert_eq!(members.len(), 2);
        let put = world.plain_put("after");
        let (took, answer) = world.timed_probe(other, put);
        answer.expect("the others serve");
        assert!(took < ms(100), "the gap was {took:?}");
        let gone = |world: &mut World| world.members[&leader].membership == MembershipState::Gone;
        world.run_until(ms(3000), gone).expect("it stops");
        world.come_to_rest();
    }
}

#[test]
fn membership_change_that_costs_the_majority_is_refused() {
    let (mut world, leader, _replay) = started(1, 3);
    let (second, third) = (1 + leader % 3, 1 + (leader + 1) % 3);
    world.crash(third);
    world.run(ms(100));
    let removal = change(&mut world, leader, MemberChange::Remove(id(second)));
    assert_eq!(removal, Err(Failure::UnhealthyCluster));
    let new = world.new_member();
    assert_eq!(change(&mut world, second, add(new, false)), Err(Failure::UnhealthyCluster));
    change(&mut world, leader, add(new, true)).expect("a learner costs nothing");
    let another = world.new_member();
    let too_many = change(&mut world, leader, add(another, true));
    assert_eq!(too_many, Err(Failure::TooManyLearners));
    change(&mut world, leader, MemberChange::Remove(id(third))).expect("it is dead anyway");
    let again = MemberChange::Add {
        id: id(third),
        peer_urls: vec!["http://elsewhere:1".into()],
        is_learner: false,
    };
    assert_eq!(change(&mut world, leader, again), Err(Failure::MemberExists));
    world.start(third);
    world.removed_must_stop_within(ms(1000));
    world.must_serve_within(ms(1000));
}

#[test]
fn learner_is_promoted_only_when_in_sync() {
    let (mut world, leader, _replay) = started(1, 3);
    let new = world.new_member();
    change(&mut world, leader, add(new, true)).expect("a learner is added");
    let early = change(&mut world, leader, MemberChange::Promote(id(new)));
    assert_eq!(early, Err(Failure::LearnerNotReady), "it has not even started");
    let voter = change(&mut world, leader, MemberChange::Promote(id(leader)));
    assert_eq!(voter, Err(Failure::NotLearner));
    let unknown = change(&mut world, leader, MemberChange::Promote(id(99)));
    assert_eq!(unknown, Err(Failure::MemberNotFound));
    let caught_up = |world: &mut World| {
        let process = world.members[&new].process.as_ref();
        process.is_some_and(|process| process.replica.status().has_caught_up)
    };
    world.run_until(ms(3000), caught_up).expect("it catches up");
    // What it has counts when its disk has it and the leader knows.
    world.run(ms(100));
    let alarm = Alarm { member: id(new), kind: AlarmKind::Corrupt };
    let raised = world.probe(leader, Operation::Write(Command::RaiseAlarm(alarm)));
    raised.expect("a member finds that it differs");
    let corrupt = change(&mut world, leader, MemberChange::Promote(id(new)));
    assert_eq!(corrupt, Err(Failure::LearnerNotReady), "what it has is not right");
    let lowered = world.probe(leader, Operation::Write(Command::LowerAlarm(alarm)));
    lowered.expect("a member finds that it does not");
    change(&mut world, leader, MemberChange::Promote(id(new))).expect("it is in sync");
    world.come_to_rest();
}

/// The removal is committed, but only in memory: a member that crashes now needs the vote of the removed member after its
/// restart. So that one must still run.
#[test]
fn removed_member_stops_only_after_a_durable_removal() {
    for seed in seeds(20) {
        let (mut world, leader, _replay) = started(seed, 2);
        let other = 3 - leader;
        let removal = Operation::Write(Command::Members(MemberChange::Remove(id(other))));
        world.send_request(usize::MAX, leader, removal);
        let off_the_list = |world: &mut World| !world.truth.state().departing.is_empty();
        world.run_until(ms(1000), off_the_list).expect("it is removed");
        world.crash(leader);
        world.run(ms(300));
        world.start(leader);
        world.removed_must_stop_within(ms(3000));
        world.must_serve_within(ms(3000));
        world.come_to_rest();
    }
}

#[test]
fn single_voter_speaks_only_in_terms_that_its_disk_has() {
    for seed in seeds(6) {
        single_voter_restarts(seed);
    }
}

/// A single voter restarts beside a learner, its first write hangs, and it crashes before the new term is on disk. It leads
/// the same term again then, and logs other entries: the learner must not have any of the first ones.
pub fn single_voter_restarts(seed: u64) {
    let (mut world, _, _replay) = started(seed, 1);
    let learner = world.new_member();
    change(&mut world, 1, add(learner, true)).expect("a learner is added");
    let has_caught_up = |world: &mut World| {
        let process = world.members[&learner].process.as_ref();
        process.is_some_and(|process| process.replica.status().has_caught_up)
    };
    world.run_until(ms(3000), has_caught_up).expect("the learner catches up");
    world.run(ms(100));
    world.crash(1);
    world.stall_disk(1, ms(600));
    world.start(1);
    world.run(ms(300));
    for _ in 0..3 {
        let put = world.plain_put("lost");
        world.send_request(usize::MAX, 1, put);
        world.run(ms(20));
    }
    world.crash(1);
    world.run(ms(400));
    world.start(1);
    world.must_serve_within(ms(3000));
    change(&mut world, 1, MemberChange::Promote(id(learner))).expect("the learner is in sync");
    world.must_serve_within(ms(3000));
    world.come_to_rest();
}

/// One direction between the raft leader and a follower is reset, the other stays. When the connection was made again all
/// members are present, and the list can be changed: a voter is added, a dead one removed.
pub(crate) fn members_change_after_one_direction_was_reset(seed: u64, to_leader: bool) {
    let (mut world, leader, _replay) = started(seed, 3);
    let follower = world.numbers().into_iter().find(|number| *number != leader).unwrap();
    let ends = if to_leader { (follower, leader) } else { (leader, follower) };
    world.reset_one_way(ends.0, ends.1);
    let stands = |world: &mut World| world.net.is_connected(ends.0, ends.1);
    world.run_until(ms(500), stands).expect("it calls again");
    world.must_serve_within(ms(3000));
    let leader = world.leader().unwrap();
    let added = world.new_member();
    let members = change(&mut world, leader, add(added, false));
    assert_eq!(members, Ok(vec![1, 2, 3, added]), "heals: no voter can be added");
    world.run_until(ms(3000), |world| world.members[&added].process.is_some()).unwrap();
    world.must_serve_within(ms(3000));
    let leader = world.leader().unwrap();
    let dead = world.numbers().into_iter().find(|number| *number != leader).unwrap();
    world.crash(dead);
    world.run(ms(20));
    let left = change(&mut world, leader, MemberChange::Remove(id(dead)));
    assert!(left.is_ok_and(|left| !left.contains(&dead)), "heals: a dead one cannot be removed");
}

#[test]
fn membership_changes_work_after_one_direction_was_reset() {
    for seed in seeds(12) {
        members_change_after_one_direction_was_reset(seed, true);
        members_change_after_one_direction_was_reset(seed, false);
    }
}
