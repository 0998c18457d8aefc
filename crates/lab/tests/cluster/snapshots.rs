//! Members that come back by a snapshot.

use tenure_api::{MemberId, Term};
use tenure_replica::{
    Frozen, Input, Moment, Notice, RaftKind, RaftMessage, Recovered, Replica, SnapshotMark, State,
};

use crate::{seeds, service::started};
use tenure_lab::{
    cluster::{
        World, clients::Registers, disk::freeze, happening::Happening, member::id, scenario::Replay,
    },
    engine::ms,
};

#[test]
fn a_member_that_was_away_for_long_comes_back_by_snapshot() {
    for seed in seeds(6) {
        let (mut world, leader, _replay) = started(seed, 3);
        let away = 1 + leader % 3;
        world.crash(away);
        for _ in 0..4 {
            world.add_client(Registers::default());
        }
        world.run(ms(3000));
        world.agenda.after(ms(1), Happening::Start(away));
        world.run(ms(1000));
        assert!(world.counts.of("snapshot_installed") > 0);
        world.must_serve_within(ms(500));
        world.come_to_rest();
    }
}

/// The commit of nothing else happens meanwhile: the retry must not wait for the next write.
#[test]
fn a_snapshot_that_failed_is_taken_again_for_whoever_needs_it() {
    let _replay = Replay::of_test(3);
    let mut world = World::with(3, 3, |config| {
        config.snapshot_entries = u64::MAX;
        config.snapshot_bytes_min = u64::MAX;
    });
    world.start_all();
    world.must_lead_within(ms(1500));
    world.run(ms(300));
    let leader = world.leader().expect("it was just waited for");
    let away = 1 + leader % 3;
    world.crash(away);
    for number in 0..120 {
        let put = world.plain_put(&format!("k{number}"));
        world.probe(leader, put).expect("two of three serve");
    }
    world.snapshot_failures = 1000;
    world.start(away);
    world.run(ms(2000));
    world.snapshot_failures = 0;
    assert!(world.counts.of("snapshot_failure") > 0);
    world.run(ms(2000));
    let (applied, last) = (
        world.members[&away].process.as_ref().unwrap().replica.status().applied,
        world.truth.last(),
    );
    assert_eq!(applied, last, "the member that was away is still behind");
}

/// Its state is the snapshot's, but the disk does not know yet. Whoever campaigns now is asked by raft-rs
/// for entries that are gone.
#[test]
fn a_member_does_not_campaign_before_its_snapshot_is_durable() {
    for seed in seeds(6) {
        for told_to_lead in [false, true] {
            let (mut world, leader, _replay) = started(seed, 3);
            let away = 1 + leader % 3;
            world.crash(away);
            for _ in 0..4 {
                world.add_client(Registers::default());
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
    Input::Message(id(from), tenure_replica::Message::Raft(message))
}

/// It had everything already, so raft did not take the snapshot; but its house keeps only the newest,
/// and that is the one to pass on.
#[test]
fn a_snapshot_that_was_not_needed_can_be_passed_on() {
    let _replay = Replay::of_test(1);
    let mut world = World::with(1, 3, |config| config.tail_bytes_max = 1 << 20);
    world.start_all();
    world.must_lead_within(ms(1500));
    world.run(ms(300));
    let leader = world.leader().expect("it was just waited for");
    let (second, away) = (1 + leader % 3, 1 + (leader + 1) % 3);
    world.crash(away);
    for number in 0..105 {
        let put = world.plain_put(&format!("k{number}"));
        world.probe(leader, put).expect("two of three serve");
        if number == 100 {
            // After a restart it has no entries before its own snapshot.
            world.crash(second);
            world.start(second);
            world.run(ms(300));
        }
    }
    let index = world.truth.last();
    let state = world.truth.state_at(index).expect("it is the newest").clone();
    let message = RaftMessage { from: id(leader), to: id(second), ..snapshot_message(index) };
    let mark = message.snapshot.clone().expect("it is about a snapshot");
    let chunks = freeze(&Frozen { mark: mark.clone(), state: state.clone() });
    world.member_mut(second).disk.save(mark, chunks);
    world.hand_in(second, Input::SnapshotArrived(message, Box::new(state)));
    world.run(ms(5));
    world.crash(leader);
    world.start(away);
    world.run_until(ms(1000), |world| world.leader() == Some(second)).expect("it knows most");
    world.run(ms(1000));
    let status = world.members[&away].process.as_ref().expect("it runs").replica.status();
    assert_eq!(status.applied, world.truth.last(), "the member that was away is still behind");
}

/// Two snapshots wait when a member is called again; the later one to be handed in is overdue.
#[test]
fn an_overdue_snapshot_does_not_hide_the_one_to_take() {
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
