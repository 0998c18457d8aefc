//! Members that differ from the others, and stores that are full.

use bytes::Bytes;
use tenure_api::{Alarm, AlarmKind, DeleteRange, Failure, LeaseId, Put, Span, op::PutLease};
use tenure_replica::{
    Consistency, Notice, Operation, Read, Replica, Retention,
    command::{
        COST_LIMITS_SINCE, Command, ElectionCommand, JoinSpec, SessionEnding, SessionRequest,
    },
    election::Mode,
    lease::LEASE_BYTES,
};

use crate::seeds;
use tenure_lab::{
    cluster::{
        World,
        clients::{ProbeClient, RegisterClient},
        member::{MemberNumber, id},
        scenario::Replay,
    },
    engine::ms,
};

fn replica(world: &World, number: MemberNumber) -> &Replica {
    &world.members[&number].process.as_ref().expect("it runs").replica
}

fn serving(seed: u64, members: u64, quota_bytes: u64) -> (World, MemberNumber, Replay) {
    let replay = Replay::of_test(seed);
    let mut world = World::with(seed, members, |config| config.quota_bytes = quota_bytes);
    world.start_all();
    world.must_lead_within(ms(1500));
    let version = |world: &mut World| world.truth.state().cluster_version >= 2;
    world.run_until(ms(3000), version).expect("all members know alarms");
    let leader = world.leader().expect("there is a raft leader");
    (world, leader, replay)
}

/// Keys written and read while members compare what they hold.
fn with_load(seed: u64, members: u64) -> (World, MemberNumber, Replay) {
    let (mut world, leader, replay) = serving(seed, members, 2 << 30);
    for _ in world.numbers() {
        world.add_client(RegisterClient::default());
    }
    (world, leader, replay)
}

fn alarm_of(world: &mut World, number: MemberNumber) -> Option<Alarm> {
    let alarm = Alarm { member: id(number), kind: AlarmKind::Corrupt };
    let raised = |world: &mut World| world.truth.state().alarms.contains(&alarm);
    world.run_until(ms(3000), raised).map(|_| alarm)
}

#[test]
fn audit_names_a_follower_that_differs_and_stops_its_service() {
    for seed in seeds(5) {
        let (mut world, leader, _replay) = with_load(seed, 3);
        let rotten = world.numbers().into_iter().find(|number| *number != leader).unwrap();
        world.rotten.insert(rotten);
        let alarm = alarm_of(&mut world, rotten).expect("the next audit finds it");
        world.run(ms(100));
        let put = world.plain_put("refused");
        assert_eq!(world.probe(rotten, put).unwrap_err(), Failure::Corrupt);
        let put = world.plain_put("served");
        world.probe(leader, put).expect("the others go on");
        assert_eq!(world.truth.state().alarms.len(), 1, "no other member is named");

        world.rotten.clear();
        world
            .probe(leader, Operation::Write(Command::LowerAlarm(alarm)))
            .expect("a person decides");
        world.run(ms(100));
        let put = world.plain_put("served again");
        world.probe(rotten, put).expect("it serves again");
    }
}

#[test]
fn audit_makes_a_raft_leader_that_differs_hand_over() {
    for seed in seeds(5) {
        let (mut world, leader, _replay) = with_load(seed, 5);
        world.rotten.insert(leader);
        alarm_of(&mut world, leader).expect("the next audit finds it");
        let gone = |world: &mut World| world.leader().is_some_and(|new| new != leader);
        world.run_until(ms(1000), gone).expect("another leads");
        assert_eq!(world.truth.state().alarms.len(), 1, "the majority is right");
    }
}

/// In a cluster of three the followers commit by themselves, and are done before the raft leader has begun.
#[test]
fn audit_by_two_faster_members_outvotes_the_raft_leader() {
    for seed in seeds(20) {
        let (mut world, leader, _replay) = with_load(seed, 3);
        let newest = |world: &mut World| world.truth.state().cluster_version >= 4;
        world.run_until(ms(3000), newest).expect("all members know vouching");
        world.members.get_mut(&leader).unwrap().disk.flush = (ms(3), ms(6));
        world.rotten.insert(leader);
        alarm_of(&mut world, leader).expect("the next audit finds it");
        world.run(ms(1000));
        assert_eq!(world.truth.state().alarms.len(), 1, "the two are right");
    }
}

#[test]
fn audit_without_a_silent_member_does_not_acquit_the_raft_leader() {
    for seed in seeds(5) {
        let (mut world, leader, _replay) = with_load(seed, 4);
        let silent = world.numbers().into_iter().find(|number| *number != leader).unwrap();
        world.crash(silent);
        world.rotten.insert(leader);
        alarm_of(&mut world, leader).expect("two against one");
        world.run(ms(1000));
        assert_eq!(world.truth.state().alarms.len(), 1, "those two are right");
    }
}

#[test]
fn audit_of_members_that_all_differ_moves_no_leadership() {
    for seed in seeds(5) {
        let (mut world, leader, _replay) = serving(seed, 3, 2 << 30);
        for number in world.numbers() {
            let alarm = Alarm { member: id(number), kind: AlarmKind::Corrupt };
            world
                .probe(leader, Operation::Write(Command::RaiseAlarm(alarm)))
                .expect("it is raised");
        }
        world.run(ms(1000));
        let term = replica(&world, world.leader().expect("there is a raft leader")).durable_term();
        world.run(ms(2000));
        let leader = world.leader().expect("there is a raft leader");
        assert_eq!(replica(&world, leader).durable_term(), term, "no other member would be better");
    }
}

#[test]
fn audit_moves_leadership_to_a_member_that_does_not_differ() {
    for seed in seeds(5) {
        let (mut world, leader, _replay) = serving(seed, 5, 2 << 30);
        let sound = world.numbers().into_iter().rfind(|number| *number != leader).unwrap();
        let all = world.numbers();
        for number in all.into_iter().filter(|number| *number != sound && *number != leader) {
            let alarm = Alarm { member: id(number), kind: AlarmKind::Corrupt };
            world
                .probe(leader, Operation::Write(Command::RaiseAlarm(alarm)))
                .expect("it is raised");
        }
        let term = replica(&world, leader).durable_term();
        let alarm = Alarm { member: id(leader), kind: AlarmKind::Corrupt };
        world.probe(leader, Operation::Write(Command::RaiseAlarm(alarm))).expect("it is raised");
        world.run(ms(1000));
        assert_eq!(world.leader(), Some(sound));
        assert_eq!(replica(&world, sound).durable_term().0, term.0 + 1, "at the first attempt");
    }
}

#[test]
fn audit_leaves_a_member_that_differs_alive() {
    let (mut world, leader, _replay) = serving(1, 3, 2 << 30);
    let alarm = Alarm { member: id(leader), kind: AlarmKind::Corrupt };
    world.probe(leader, Operation::Write(Command::RaiseAlarm(alarm))).expect("it is raised");
    world.run(ms(200));
    let ask = |consistency| Operation::Read(Read::Freshness, consistency);
    world.probe(leader, ask(Consistency::Serializable)).expect("its loop answers");
    let fit = world.probe(leader, ask(Consistency::Linearizable));
    assert_eq!(fit.unwrap_err(), Failure::Corrupt, "and it is not fit to serve");
}

#[test]
fn audit_is_not_repeated_in_an_idle_cluster() {
    let (mut world, ..) = serving(1, 3, 2 << 30);
    world.run(ms(3000));
    let before = world.counts.of("audited");
    world.run(ms(5000));
    assert_eq!(world.counts.of("audited"), before);
    assert!(before > 0, "what was announced at the start was audited");
}

/// A kilobyte, different each time.
fn put(world: &mut World, key: usize, lease: Option<LeaseId>) -> Operation {
    let mut value = world.fresh_value().into_bytes();
    value.resize(1000, b'.');
    Operation::Write(Command::Put(Put {
        key: Bytes::from(format!("key {key}")),
        value: Some(value.into()),
        lease: PutLease::Set(lease),
        prev_kv: false,
    }))
}

fn write(
    world: &mut World,
    member: MemberNumber,
    key: usize,
    lease: Option<LeaseId>,
) -> Result<tenure_replica::Reply, Failure> {
    let put = put(world, key, lease);
    world.probe(member, put)
}

#[test]
fn full_store_serves_sessions_and_recovers() {
    for seed in seeds(5) {
        let (mut world, leader, _replay) = serving(seed, 3, 100_000);
        let other = world.numbers().into_iter().find(|number| *number != leader).unwrap();
        let full = (0..).find_map(|key| write(&mut world, other, key, None).err());
        assert_eq!(full, Some(Failure::NoSpace));
        let raised = |world: &mut World| world.truth.state().is_full();
        world.run_until(ms(1000), raised).expect("all members are told");
        world.run(ms(100));
        let warned = |(_, _, notice): &(_, _, Notice)| matches!(notice, Notice::SpaceLow { .. });
        assert!(world.notices.iter().any(warned), "the log warned before");
        assert_eq!(write(&mut world, leader, 0, None).unwrap_err(), Failure::NoSpace);

        let lease = LeaseId(7);
        let grant = Command::LeaseGrant { id: lease, ttl_secs: 600 };
        world.probe(other, Operation::Write(grant)).expect("a session begins");
        write(&mut world, other, 100_000, Some(lease)).expect("a candidate joins");
        let reserve = (0..1000).find_map(|key| write(&mut world, other, key, Some(lease)).err());
        assert_eq!(reserve, Some(Failure::NoSpace), "the reserve has an end");

        let everything = DeleteRange { span: Span::prefix(Bytes::from("key")), prev_kv: false };
        world
            .probe(other, Operation::Write(Command::DeleteRange(everything)))
            .expect("room is made");
        let revision = world.truth.state().store.revision();
        world.probe(other, Operation::Write(Command::Compact(revision))).expect("and freed");
        let lowered = |world: &mut World| !world.truth.state().is_full();
        world.run_until(ms(3000), lowered).expect("the alarm ends by itself");
        world.run(ms(100));
        write(&mut world, other, 0, None).expect("there is room again");
    }
}

/// All of them see the room that none of them has taken yet.
#[test]
fn full_store_keeps_the_reserve_of_sessions_under_many_writers() {
    const QUOTA_BYTES: u64 = 400_000;
    for seed in seeds(5) {
        let (mut world, _, _replay) = serving(seed, 3, QUOTA_BYTES);
        let numbers = world.numbers();
        let lease = LeaseId(7);
        let grant = Command::LeaseGrant { id: lease, ttl_secs: 600 };
        world.probe(numbers[0], Operation::Write(grant)).expect("a session begins");
        let verdicts: Vec<_> = (0..1500)
            .map(|key| {
                let request = put(&mut world, key, None);
                let (probe, verdict) = ProbeClient::new(numbers[key % numbers.len()], request);
                world.add_client_after(std::time::Duration::ZERO, probe);
                verdict
            })
            .collect();
        let answered = verdicts.clone();
        let all = move |_: &mut World| answered.iter().all(|verdict| verdict.borrow().is_some());
        world.run_until(ms(20_000), all).expect("all are answered");
        for verdict in &verdicts {
            let refusal = verdict.borrow_mut().take().and_then(|(_, result)| result.err());
            let expected = [None, Some(Failure::NoSpace), Some(Failure::TooManyRequests)];
            assert!(expected.contains(&refusal), "{refusal:?}");
        }
        let used = world.truth.state().store.size_bytes();
        assert!(used > QUOTA_BYTES / 2, "there was room for many: {used}");
        assert!(used <= QUOTA_BYTES + QUOTA_BYTES / 50, "the reserve is left alone: {used}");
        for number in numbers {
            write(&mut world, number, 10_000 + number as usize, Some(lease))
                .expect("a candidate joins");
        }
    }
}

/// The quota is a member's own. A write that another member accepted shows when it is applied.
#[test]
fn quota_alarm_reaches_all_members_without_requests() {
    let (mut world, leader, _replay) = serving(1, 3, 100_000);
    let lease = LeaseId(7);
    let grant = Command::LeaseGrant { id: lease, ttl_secs: 600 };
    world.probe(leader, Operation::Write(grant)).expect("a session begins");
    let mut key = 0;
    while world.truth.state().store.size_bytes() <= 100_000 {
        write(&mut world, leader, key, Some(lease)).expect("the reserve takes it");
        key += 1;
    }
    let raised = |world: &mut World| world.truth.state().is_full();
    world.run_until(ms(1000), raised).expect("all members are told");
}

/// While quotas are raised one after the other, the smallest counts, whichever member leads.
#[test]
fn quota_alarm_of_a_smaller_quota_outlasts_a_larger_one() {
    for seed in seeds(3) {
        let _replay = Replay::of_test(seed);
        let mut world = World::with(seed, 3, |config| {
            config.quota_bytes = if config.me == id(2) { 100_000 } else { 1_000_000 };
        });
        world.start_all();
        world.must_lead_within(ms(1500));
        let newest = |world: &mut World| world.truth.state().cluster_version >= 2;
        world.run_until(ms(1000), newest).expect("alarms are known");
        let mut key = 0;
        while !world.truth.state().is_full() {
            if write(&mut world, 1, key, None).is_err() {
                break;
            }
            key += 1;
        }
        let raised = |world: &mut World| world.truth.state().is_full();
        world.run_until(ms(2000), raised).expect("the smallest is full");
        let lowered = |world: &mut World| !world.truth.state().is_full();
        assert!(world.run_until(ms(5000), lowered).is_none(), "nothing has become less");

        // A member that raised the alarm and went away does not keep the others from writing.
        world.crash(2);
        world.run_until(ms(5000), lowered).expect("the others have room");
        world.run(ms(100));
        write(&mut world, 1, key, None).expect("and take it");
    }
}

#[test]
fn retention_compacts_history_by_age() {
    let _replay = Replay::of_test(1);
    let mut world = World::with(1, 3, |config| {
        config.retention = Retention::Period(std::time::Duration::from_secs(10));
    });
    world.start_all();
    world.must_lead_within(ms(1500));
    let leader = world.leader().unwrap();
    for key in 0..50 {
        write(&mut world, leader, key, None).expect("it is written");
    }
    let written = world.truth.state().store.revision();
    world.run(ms(8000));
    assert!(replica(&world, leader).state().store.compacted() < written, "it is not so old yet");
    let compacted = |world: &mut World| world.truth.state().store.compacted() >= written;
    world.run_until(ms(6000), compacted).expect("it is old now");
}

#[test]
fn retention_keeps_no_more_revisions_than_configured() {
    const KEPT: i64 = 20;
    let _replay = Replay::of_test(1);
    let mut world = World::with(1, 3, |config| config.retention = Retention::Revisions(KEPT));
    world.start_all();
    world.must_lead_within(ms(1500));
    let leader = world.leader().unwrap();
    for key in 0..50 {
        write(&mut world, leader, key, None).expect("it is written");
    }
    let written = world.truth.state().store.revision();
    assert_eq!(world.truth.state().store.compacted().0, 0, "they are counted once a minute");
    world.run(ms(61_000));
    assert_eq!(world.truth.state().store.revision(), written, "nothing was written meanwhile");
    for number in world.numbers() {
        let compacted = replica(&world, number).state().store.compacted();
        assert_eq!(compacted.0, written.0 - KEPT, "member {number}");
    }
}

/// Leases and sessions cost memory as keys do. Those that are there live on, and their elections are decided.
#[test]
fn leases_count_against_the_quota() {
    const QUOTA_BYTES: u64 = 100_000;
    for seed in seeds(5) {
        let (mut world, leader, _replay) = serving(seed, 3, QUOTA_BYTES);
        let newest = |world: &mut World| world.truth.state().cluster_version >= COST_LIMITS_SINCE;
        world.run_until(ms(3000), newest).expect("all members limit alike");
        let open = |id| ElectionCommand::Open {
            id: LeaseId(id),
            ttl_ms: 3_600_000,
            identity: String::new(),
            fast_release: false,
            by: 1,
            secret: None,
        };
        let election = |command| Operation::Write(Command::Election(command));
        for id in [1, 2] {
            world.probe(leader, election(open(id))).expect("there is room");
        }
        let grant = |id| Operation::Write(Command::LeaseGrant { id: LeaseId(id), ttl_secs: 3600 });
        let granted = (10..).find(|id| world.probe(leader, grant(*id)).is_err()).unwrap() - 10;
        // All that a lease may use, the reserve included.
        let most = (QUOTA_BYTES + QUOTA_BYTES / 20) as i64 / LEASE_BYTES as i64;
        assert!(granted <= most && granted > most / 2, "{granted} leases");
        assert_eq!(world.probe(leader, grant(9)).unwrap_err(), Failure::NoSpace);
        assert_eq!(world.probe(leader, election(open(3))).unwrap_err(), Failure::NoSpace);
        let full = |world: &mut World| world.truth.state().is_full();
        world.run_until(ms(2000), full).expect("the alarm goes off");
        let put = world.plain_put("refused");
        assert_eq!(world.probe(leader, put).unwrap_err(), Failure::NoSpace);
        world
            .probe(leader, Operation::Write(Command::LeaseRenew(LeaseId(1))))
            .expect("a session that is there is renewed");
        for id in 10..10 + granted {
            world
                .probe(leader, Operation::Write(Command::LeaseRevoke(LeaseId(id))))
                .expect("leases may go");
        }
        let room = |world: &mut World| !world.truth.state().is_full();
        world.run_until(ms(3000), room).expect("the alarm ends by itself");
    }
}

/// What a client needs that has a session, when others have used up the quota.
#[test]
fn full_store_decides_elections_of_sessions_that_are_there() {
    let (mut world, leader, _replay) = serving(1, 3, 100_000);
    let election = |command| Operation::Write(Command::Election(command));
    for id in [1, 2] {
        let open = ElectionCommand::Open {
            id: LeaseId(id),
            ttl_ms: 3_600_000,
            identity: String::new(),
            fast_release: false,
            by: 1,
            secret: None,
        };
        world.probe(leader, election(open)).expect("there is room");
    }
    let full = (0..).find_map(|key| write(&mut world, leader, key, None).err());
    assert_eq!(full, Some(Failure::NoSpace));
    for id in [1, 2] {
        let join = JoinSpec::one(Bytes::from_static(b"jobs"), Mode::Exclusive);
        let (session, request) = (LeaseId(id), SessionRequest::Join(join));
        let join = ElectionCommand::Request { session, number: 1, request };
        world.probe(leader, election(join)).expect("they may contend");
    }
    let how = SessionEnding::Closed { stopped: true };
    let end = ElectionCommand::End { id: LeaseId(1), how, secret: None };
    world.probe(leader, election(end)).expect("it resigns");
    let elections = &world.truth.state().elections;
    assert_eq!(elections.election(b"jobs").unwrap().leader().unwrap().session(), Some(LeaseId(2)));
}
