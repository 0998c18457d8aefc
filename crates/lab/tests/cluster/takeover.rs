//! How soon somebody leads again.

use std::time::Duration;

use tenure_replica::{Consistency, Notice, Read, Request};

use crate::seeds;
use tenure_lab::{
    cluster::{World, disk::SLOW, member::Number, scenario::Replay},
    engine::ms,
};

/// A cluster that has been serving for a while.
fn serving(seed: u64, members: u64) -> (World, Number, Replay) {
    let replay = Replay::of_test(seed);
    let mut world = World::new(seed, members);
    world.start_all();
    world.must_lead_within(ms(1500));
    world.run(ms(500));
    let leader = world.leader().expect("somebody leads after half a second");
    world.must_serve_within(ms(100));
    (world, leader, replay)
}

/// The time from now until a member other than `old` has taken a write.
fn time_to_write(world: &mut World, old: Number) -> Duration {
    let start = world.now();
    let up = |number: &Number| *number != old && world.members[number].process.is_some();
    let other = world.numbers().into_iter().find(up).expect("there are others");
    let put = world.plain_put("after");
    world.probe(other, put).expect("a write is held until somebody leads");
    world.now().since(start)
}

/// Every follower's kernel says in the same instant that the leader's process is gone.
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
fn a_dead_leader_is_replaced_long_before_the_election_timeout() {
    for members in [3, 5, 7] {
        let took = takeovers(members, false);
        assert!(took[took.len() / 2] < ms(60), "the median takeover took {took:?}");
        assert!(took.iter().all(|took| *took < ms(200)), "a takeover took long: {took:?}");
    }
}

#[test]
fn slow_disks_do_not_make_candidates_fight() {
    for members in [3, 5] {
        let took = takeovers(members, true);
        assert!(took[took.len() / 2] < ms(300), "the median takeover took {took:?}");
        assert!(took.iter().all(|took| *took < ms(800)), "a takeover took long: {took:?}");
    }
}

#[test]
fn reads_are_served_as_soon_as_somebody_leads_again() {
    for seed in seeds(15) {
        let (mut world, leader, _replay) = serving(seed, 3);
        world.crash(leader);
        let start = world.now();
        let other = world.numbers().into_iter().find(|number| *number != leader).unwrap();
        let read = Request::Read(Read::Freshness, Consistency::Linearizable);
        world.probe(other, read).expect("a read is held until somebody leads");
        let took = world.now().since(start);
        assert!(took < ms(150), "a read took {took:?}");
    }
}

#[test]
fn a_leader_that_is_silently_cut_off_is_replaced_and_steps_down() {
    for members in [3, 5] {
        for seed in seeds(8) {
            let (mut world, leader, _replay) = serving(seed, members);
            let term = world.members[&leader].process.as_ref().unwrap().replica.term();
            world.isolate(leader);
            let took =
                world.run_until(ms(2500), |world| world.leader().is_some_and(|now| now != leader));
            assert!(took.is_some(), "nobody replaced the leader that was cut off");
            world.run(ms(1100));
            let old = world.members[&leader].process.as_ref().unwrap().replica.status();
            assert!(old.leader.is_none(), "cut off, it still believes in {:?}", old.leader);
            assert_eq!(old.term, term, "pre-vote keeps the term of who is cut off");
            world.net.links.mend_all();
            world.must_serve_within(ms(300));
        }
    }
}

#[test]
fn a_leader_whose_disk_stands_still_hands_over() {
    for seed in seeds(8) {
        let (mut world, leader, _replay) = serving(seed, 3);
        world.stall_disk(leader, ms(10_000));
        // Something to write: a leader that has nothing to write does not miss its disk.
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
fn all_members_killed_at_once_lead_again_soon_after_they_are_back() {
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
fn a_takeover_survives_the_loss_of_every_minority() {
    for seed in seeds(4) {
        let (mut world, _, _replay) = serving(seed, 5);
        for _ in 0..2 {
            let leader = world.leader().expect("somebody leads");
            world.crash(leader);
            time_to_write(&mut world, leader);
        }
    }
}
