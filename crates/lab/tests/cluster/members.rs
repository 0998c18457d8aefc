//! Members come and go.

use tenure_api::{Alarm, AlarmKind, Failure, MemberId};
use tenure_replica::{
    Outcome, Reply, Request,
    command::{Command, MemberChange},
};

use crate::{seeds, service::started};
use tenure_lab::{
    cluster::{
        World,
        catalogue::{CHANGING, CHANGING_CALM},
        clients::Registers,
        member::{Number, Standing, id},
        scenario::Scenario,
        world::peer_url,
    },
    engine::{Counts, ms},
    invariants,
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
    let mut total = Counts::default();
    for seed in seeds(usual) {
        total.add(&scenario.run(seed, None).counts);
    }
    if *seeds(usual).end() >= usual {
        total.assert_all(scenario.faults.iter().map(|fault| fault.name()));
        total.assert_all(invariants::expected(scenario));
        total.assert_all(KINDS);
    }
    println!("{}: {total:?}", scenario.name);
}

#[test]
fn all_is_well_while_members_come_and_go() {
    run(&CHANGING_CALM, 8);
}

#[test]
fn all_is_well_while_members_come_and_go_and_anything_goes_wrong() {
    run(&CHANGING, 24);
}

fn change(world: &mut World, at: Number, change: MemberChange) -> Result<Vec<u64>, Failure> {
    match world.probe(at, Request::Write(Command::Members(change)))? {
        Reply::Wrote(Outcome::Members(members)) => {
            Ok(members.iter().map(|member| member.id.0).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn add(number: Number, is_learner: bool) -> MemberChange {
    MemberChange::Add { id: id(number), peer_urls: vec![peer_url(number)], is_learner }
}

#[test]
fn a_cluster_of_one_grows_to_five_and_shrinks_again() {
    for seed in seeds(4) {
        let (mut world, _, _replay) = started(seed, 1);
        for _ in 0..3 {
            world.add_client(Registers::default());
        }
        for number in 2..=5 {
            assert_eq!(world.candidate(), number);
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
            let gone = |world: &mut World| world.members[&number].standing == Standing::Gone;
            world.run_until(ms(3000), gone).expect("it stops");
            world.must_serve_within(ms(1500));
        }
        let last = change(&mut world, 4, MemberChange::Remove(id(4)));
        assert_eq!(last, Err(Failure::NotEnoughStarted));
        world.come_to_rest();
    }
}

/// A wrong address must not cost a single member its majority: it could not even take it back.
#[test]
fn a_second_member_that_never_comes_does_no_harm() {
    for seed in seeds(4) {
        let (mut world, _, _replay) = started(seed, 1);
        let absent = world.candidate();
        world.members.get_mut(&absent).expect("it is known").standing = Standing::Gone;
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
        // The invitation outlives the one who made it.
        world.crash(1);
        world.run(ms(100));
        world.start(1);
        world.must_serve_within(ms(3000));
        assert!(world.truth.state().invited.contains(&never));
        change(&mut world, 1, MemberChange::Remove(never)).expect("it is taken back");
        assert!(world.truth.state().invited.is_empty());

        let new = world.candidate();
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
fn a_raft_leader_that_is_removed_leaves_a_short_gap() {
    for seed in seeds(8) {
        let (mut world, leader, _replay) = started(seed, 3);
        let other = 1 + leader % 3;
        let members = change(&mut world, other, MemberChange::Remove(id(leader))).expect("it goes");
        assert_eq!(members.len(), 2);
        let put = world.plain_put("after");
        let (took, answer) = world.timed_probe(other, put);
        answer.expect("the others serve");
        assert!(took < ms(100), "the gap was {took:?}");
        let gone = |world: &mut World| world.members[&leader].standing == Standing::Gone;
        world.run_until(ms(3000), gone).expect("it stops");
        world.come_to_rest();
    }
}

#[test]
fn a_change_that_would_cost_the_majority_is_refused() {
    let (mut world, leader, _replay) = started(1, 3);
    let (second, third) = (1 + leader % 3, 1 + (leader + 1) % 3);
    world.crash(third);
    world.run(ms(100));
    let removal = change(&mut world, leader, MemberChange::Remove(id(second)));
    assert_eq!(removal, Err(Failure::UnhealthyCluster));
    let new = world.candidate();
    assert_eq!(change(&mut world, second, add(new, false)), Err(Failure::UnhealthyCluster));
    change(&mut world, leader, add(new, true)).expect("a learner costs nothing");
    let another = world.candidate();
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
fn a_learner_is_promoted_only_when_it_is_in_sync() {
    let (mut world, leader, _replay) = started(1, 3);
    let new = world.candidate();
    change(&mut world, leader, add(new, true)).expect("a learner is added");
    let early = change(&mut world, leader, MemberChange::Promote(id(new)));
    assert_eq!(early, Err(Failure::LearnerNotReady), "it has not even started");
    let voter = change(&mut world, leader, MemberChange::Promote(id(leader)));
    assert_eq!(voter, Err(Failure::NotLearner));
    let nobody = change(&mut world, leader, MemberChange::Promote(id(99)));
    assert_eq!(nobody, Err(Failure::MemberNotFound));
    let caught_up = |world: &mut World| {
        let process = world.members[&new].process.as_ref();
        process.is_some_and(|process| process.replica.status().has_caught_up)
    };
    world.run_until(ms(3000), caught_up).expect("it catches up");
    // What it has counts when its disk has it and the leader knows.
    world.run(ms(100));
    let alarm = Alarm { member: id(new), kind: AlarmKind::Corrupt };
    let raised = world.probe(leader, Request::Write(Command::RaiseAlarm(alarm)));
    raised.expect("somebody finds that it differs");
    let corrupt = change(&mut world, leader, MemberChange::Promote(id(new)));
    assert_eq!(corrupt, Err(Failure::LearnerNotReady), "what it has is not right");
    let lowered = world.probe(leader, Request::Write(Command::LowerAlarm(alarm)));
    lowered.expect("somebody says that it does not");
    change(&mut world, leader, MemberChange::Promote(id(new))).expect("it is in sync");
    world.come_to_rest();
}

/// The removal is committed, but only in memory: whoever crashes now comes back needing the vote of the
/// member that was removed. So that one must still be there.
#[test]
fn a_member_is_let_go_only_when_its_removal_is_durable() {
    for seed in seeds(20) {
        let (mut world, leader, _replay) = started(seed, 2);
        let other = 3 - leader;
        let removal = Request::Write(Command::Members(MemberChange::Remove(id(other))));
        world.ask(usize::MAX, leader, removal);
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
