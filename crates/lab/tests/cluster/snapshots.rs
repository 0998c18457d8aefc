//! Members that catch up by a snapshot.

use std::collections::{BTreeMap, BTreeSet};

use tenure_api::{MemberId, Put, Term, op::PutLease};
use tenure_replica::{
    Input, LogIndex, Moment, Notice, Operation, RaftKind, RaftMessage, Recovered, Replica,
    ReplicaConfig, SnapshotMark, State, command::Command,
};

use crate::{seeds, service::started};
use tenure_lab::{
    cluster::{World, clients::RegisterClient, event::WorldEvent, member::id, scenario::Replay},
    engine::ms,
};

#[test]
fn snapshot_brings_back_a_member_that_was_away_long() {
    for seed in seeds(6) {
        let (mut world, leader, _replay) = started(seed, 3);
        let away = 1 + leader % 3;
        world.crash(away);
        for _ in 0..4 {
            world.add_client(RegisterClient::default());
        }
        world.run(ms(3000));
        world.agenda.after(ms(1), WorldEvent::Start(away));
        world.run(ms(1000));
        assert!(world.counts.of("snapshot_installed") > 0);
        world.must_serve_within(ms(500));
        world.come_to_rest();
    }
}

/// A member is sent the state from the raft leader's memory: the leader's disk may be full, or too slow.
#[test]
fn restarted_member_catches_up_when_snapshots_cannot_be_saved() {
    let _replay = Replay::of_test(3);
    let mut world = World::with(3, 3, |config| config.snapshot_entries = 50);
    let leader = world.started(ms(300));
    let away = 1 + leader % 3;
    world.crash(away);
    world.snapshot_failures = 1000;
    for number in 0..120 {
        let put = world.plain_put(&format!("k{number}"));
        world.probe(leader, put).expect("two of three serve");
    }
    world.start(away);
    world.run(ms(2000));
    assert!(world.counts.of("snapshot_failure") > 0);
    assert!(world.counts.of("snapshot_installed") > 0);
    let (applied, last) = (
        world.members[&away].process.as_ref().unwrap().replica.status().applied,
        world.truth.last(),
    );
    assert_eq!(applied, last, "the member that was away is still behind");
}

/// While one member writes its snapshot the others' disks have only the log to write.
#[test]
fn snapshots_are_taken_by_one_member_at_a_time() {
    const EVERY: u64 = 60;
    let taken = snapshots_taken(4 * EVERY, |config| {
        config.snapshot_entries = EVERY;
        config.snapshot_bytes_min = 1 << 30;
    });
    // The first are taken while members start, and a member with much to catch up with is late.
    for pair in taken[3..].windows(2) {
        let [(before, by), (after, next_by)] = pair else { unreachable!() };
        assert!(after - before >= EVERY / 6 && by != next_by, "{taken:?}");
    }
    assert!(taken.len() > 9, "{taken:?}");
}

/// All have written the same amount, so the first snapshots decide for all that follow.
#[test]
fn snapshots_by_log_size_are_taken_by_one_member_at_a_time() {
    let taken = snapshots_taken(150, |config| {
        config.snapshot_entries = 1_000_000;
        config.snapshot_bytes_min = 90_000;
    });
    let first = &taken[..3];
    let by: BTreeSet<u64> = first.iter().map(|(_, by)| *by).collect();
    assert_eq!(by.len(), 3, "{taken:?}");
    for pair in first.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= 10, "{taken:?}");
    }
}

/// Where in the log snapshots were taken and by which member, while this many kilobytes were written one by one.
fn snapshots_taken(puts: u64, configure: impl Fn(&mut ReplicaConfig)) -> Vec<(LogIndex, u64)> {
    let _replay = Replay::of_test(5);
    let mut world = World::with(5, 3, |config| {
        // No member is sent the state: its snapshot would be found on its disk, too.
        config.tail_bytes_max = 1 << 20;
        configure(config);
    });
    world.start_all();
    world.must_lead_within(ms(1500));
    let mut taken = BTreeMap::new();
    for number in 0..puts {
        let leader = world.leader().expect("nothing happens to it");
        let put = Put {
            key: format!("k{number}").into(),
            value: Some(vec![b'x'; 1000].into()),
            lease: PutLease::Set(None),
            prev_kv: false,
        };
        world.probe(leader, Operation::Write(Command::Put(put))).expect("it serves");
        for (member, of) in &world.members {
            taken.extend(of.disk.snapshots.keys().map(|index| (*index, *member)));
        }
    }
    taken.into_iter().collect()
}

/// Much more is written while the state travels than the log usually keeps.
#[test]
fn snapshot_is_not_resent_because_of_new_writes() {
    for seed in seeds(6) {
        let _replay = Replay::of_test(seed);
        let mut world = World::with(seed, 3, |config| config.tail_bytes_max = 500);
        let leader = world.started(ms(300));
        let away = 1 + leader % 3;
        let write = |world: &mut World, count: usize| {
            for number in 0..count {
                let put = world.plain_put(&format!("k{number}"));
                world.probe(leader, put).expect("two of three serve");
            }
        };
        world.crash(away);
        write(&mut world, 120);
        world.start(away);
        let before = world.counts.of("snapshot_sent");
        world
            .run_until(ms(1000), |world| world.counts.of("snapshot_sent") > before)
            .expect("it needs one");
        write(&mut world, 60);
        world.run(ms(1000));
        assert_eq!(world.counts.of("snapshot_sent"), before + 1, "seed {seed}: it was sent twice");
        let status = world.members[&away].process.as_ref().expect("it runs").replica.status();
        assert_eq!(status.applied, world.truth.last(), "the member that was away is still behind");
    }
}

/// Its state is the snapshot's, but that is not on disk yet. raft-rs would ask a campaigning member for entries that are
/// gone.
#[test]
fn raft_campaign_waits_for_a_durable_snapshot() {
    for seed in seeds(6) {
        for told_to_lead in [false, true] {
            let (mut world, leader, _replay) = started(seed, 3);
            let away = 1 + leader % 3;
            world.crash(away);
            for _ in 0..4 {
                world.add_client(RegisterClient::default());
            }
            world.run(ms(3000));
            world.member_mut(away).disk.flush = (ms(200), ms(200));
            world.start(away);
            let installed = |world: &mut World| {
                let last = world.notices.last();
                last.is_some_and(|(_, _, notice)| matches!(notice, Notice::SnapshotInstalled(_)))
            };
            world.run_until(ms(3000), installed).expect("it takes over a snapshot");
            if told_to_lead {
                world.hand_in(away, timeout_now(leader, away));
            } else {
                world.crash(leader);
            }
            world.run(ms(100));
            world.heal();
            world.must_serve_within(ms(2000));
        }
    }
}

fn timeout_now(from: u64, to: u64) -> Input {
    let message = RaftMessage {
        kind: RaftKind::TimeoutNow,
        from: id(from),
        to: id(to),
        term: Term(1),
        ..snapshot_message(0)
    };
    let message = tenure_replica::Message::Raft(message);
    Input::Message { from: id(from), message, arrived: Moment::ZERO }
}

/// Two snapshots wait when a member is called again; the later one to be handed in is overdue.
#[test]
fn snapshot_that_is_overdue_does_not_hide_the_next() {
    let world = World::new(1, 3);
    let config = world.members[&3].config.clone();
    let mut replica = Replica::new(Moment::ZERO, config.clone(), Recovered::default());
    let state = || Box::new(State::new(config.members.clone()));
    let inputs = [100, 60].map(|index| Input::SnapshotArrived(snapshot_message(index), state()));
    replica.handle(Moment::after_start(ms(10)), inputs);
    assert_eq!(replica.status().applied, 100);
}

fn snapshot_message(index: u64) -> RaftMessage {
    let voters = [1, 2, 3].map(MemberId).to_vec();
    RaftMessage {
        kind: RaftKind::Snapshot,
        from: id(1),
        to: id(3),
        term: Term(1),
        log_term: Term(0),
        index: 0,
        commit: 0,
        commit_term: Term(0),
        reject: false,
        reject_hint: 0,
        request_snapshot: 0,
        priority: 0,
        entries: vec![],
        context: Default::default(),
        snapshot: Some(SnapshotMark { index, term: Term(1), voters, ..SnapshotMark::default() }),
    }
}
