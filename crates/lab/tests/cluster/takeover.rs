//! How soon there is a raft leader again.

use std::time::Duration;

use tenure_replica::{Consistency, Notice, Operation, Read};

use crate::seeds;
use tenure_lab::{
    cluster::{
        World,
        catalogue::{FAR_APART, FAR_APART_USUAL},
        disk::SLOW,
        member::MemberNumber,
        scenario::Replay,
    },
    engine::ms,
};

/// A cluster that has been serving for a while.
fn serving(seed: u64, members: u64) -> (World, MemberNumber, Replay) {
    let replay = Replay::of_test(seed);
    let mut world = World::new(seed, members);
    let leader = world.started(ms(500));
    world.must_serve_within(ms(100));
    (world, leader, replay)
}

/// The time from now until a member other than `old` has taken a write.
fn time_to_write(world: &mut World, old: MemberNumber) -> Duration {
    let start = world.now();
    let up = |number: &MemberNumber| *number != old && world.members[number].process.is_some();
    let other = world.numbers().into_iter().find(up).expect("there are others");
    let put = world.plain_put("after");
    world.probe(other, put).expect("a write is held until there is a raft leader");
    world.now().since(start)
}

/// Every follower's kernel reports in the same instant that the leader's process is gone.
fn takeovers(members: u64, slow_disks: bool) -> Vec<Duration> {
    let mut took: Vec<Duration> = seeds(25)
        .map(|seed| {
            let (mut world, leader, _replay) = serving(seed, members);
            if slow_disks {
                for number in world.numbers() {
                    world.member_mut(number).disk.flush = SLOW;
                }
            }
            world.crash(leader);
            time_to_write(&mut world, leader)
        })
        .collect();
    took.sort_unstable();
    println!(
        "{members} members, slow disks {slow_disks}: median {:?}, worst {:?}",
        took[took.len() / 2],
        took.last()
    );
    took
}

#[test]
fn takeover_after_a_crash_is_faster_than_the_election_timeout() {
    for members in [3, 5, 7] {
        let took = takeovers(members, false);
        assert!(took[took.len() / 2] < ms(60), "the median takeover took {took:?}");
        assert!(took.iter().all(|took| *took < ms(200)), "a takeover took long: {took:?}");
    }
}

/// Votes take longer on their way than a near candidate waits before it asks again. To ask again throws them away.
#[test]
fn takeover_among_distant_members_needs_no_election_timeout() {
    let mut took: Vec<(Duration, Duration)> = seeds(25)
        .map(|seed| {
            let _replay = Replay::of_test(seed);
            let mut world = FAR_APART.world(seed);
            world.start_all();
            let first = world.must_lead_within(ms(9000));
            world.run(ms(2000));
            let leader = world.leader().expect("its leadership is not disturbed");
            world.crash(leader);
            (first, time_to_write(&mut world, leader))
        })
        .collect();
    took.sort_unstable_by_key(|took| took.1);
    let first = took.iter().map(|took| took.0).max().expect("there are seeds");
    let (median, worst) = (took[took.len() / 2].1, took[took.len() - 1].1);
    println!(
        "far apart: first leader at worst {first:?}, takeover median {median:?}, worst {worst:?}"
    );
    let timeout = FAR_APART.world(1).members[&1].config.election_timeout;
    assert!(first < timeout && worst < timeout, "{took:?}");
}

#[test]
fn takeover_with_slow_disks_does_not_split_votes() {
    for members in [3, 5] {
        let took = takeovers(members, true);
        assert!(took[took.len() / 2] < ms(300), "the median takeover took {took:?}");
        assert!(took.iter().all(|took| *took < ms(800)), "a takeover took long: {took:?}");
    }
}

#[test]
fn takeover_serves_reads_at_once() {
    for seed in seeds(15) {
        let (mut world, leader, _replay) = serving(seed, 3);
        world.crash(leader);
        let start = world.now();
        let other = world.numbers().into_iter().find(|number| *number != leader).unwrap();
        let read = Operation::Read(Read::Freshness, Consistency::Linearizable);
        world.probe(other, read).expect("a read is held until there is a raft leader");
        let took = world.now().since(start);
        assert!(took < ms(150), "a read took {took:?}");
    }
}

#[test]
fn takeover_of_an_isolated_leader_makes_it_step_down() {
    for members in [3, 5] {
        for seed in seeds(8) {
            let (mut world, leader, _replay) = serving(seed, members);
            let term = world.members[&leader].process.as_ref().unwrap().replica.durable_term();
            world.isolate(leader);
            let took =
                world.run_until(ms(2500), |world| world.leader().is_some_and(|now| now != leader));
            assert!(took.is_some(), "no member replaced the isolated leader");
            world.run(ms(1100));
            let old = world.members[&leader].process.as_ref().unwrap().replica.status();
            assert!(
                old.leader.is_none(),
                "isolated, it still takes {:?} for the leader",
                old.leader
            );
            assert_eq!(old.term, term, "pre-vote keeps the term of an isolated member");
            world.net.links.mend_all();
            world.must_serve_within(ms(300));
        }
    }
}

#[test]
fn takeover_from_a_leader_with_a_stalled_disk() {
    for seed in seeds(8) {
        let (mut world, leader, _replay) = serving(seed, 3);
        world.stall_disk(leader, ms(10_000));
        // Something to write: a leader without writes does not notice its disk.
        let put = world.plain_put("stall");
        let other = world.numbers().into_iter().find(|number| *number != leader).unwrap();
        world.probe(other, put).expect("the other disks are a majority");
        let took =
            world.run_until(ms(1500), |world| world.leader().is_some_and(|now| now != leader));
        assert!(took.is_some(), "a leader with a stalled disk keeps leading");
        let told = |notice: &Notice| *notice == Notice::DiskStalled;
        assert!(world.notices.iter().any(|(_, member, notice)| *member == leader && told(notice)));
        let put = world.plain_put("after");
        world.probe(other, put).expect("the new leader serves");
    }
}

#[test]
fn takeover_after_the_crash_of_all_members_is_fast() {
    for members in [1, 3, 5] {
        for seed in seeds(6) {
            let (mut world, _, _replay) = serving(seed, members);
            let keys = world.truth.state().store.revision();
            for number in world.numbers() {
                world.crash(number);
            }
            world.start_all();
            world.must_lead_within(ms(300));
            world.must_serve_within(ms(400));
            assert!(world.truth.state().store.revision() > keys);
            world.come_to_rest();
        }
    }
}

#[test]
fn takeover_survives_the_loss_of_every_minority() {
    for seed in seeds(4) {
        let (mut world, _, _replay) = serving(seed, 5);
        for _ in 0..2 {
            let leader = world.leader().expect("there is a raft leader");
            world.crash(leader);
            time_to_write(&mut world, leader);
        }
    }
}

/// Three members whose votes take longer than the stagger asked for votes in every term at the same distance in time.
#[test]
fn takeover_is_not_split_by_distance_in_every_term() {
    let seed = 80_000_016;
    let _replay = Replay::of_test(seed);
    let mut world = FAR_APART_USUAL.world(seed);
    world.start_all();
    world.must_lead_within(ms(1500));
}
