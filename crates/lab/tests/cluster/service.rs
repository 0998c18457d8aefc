//! Which members serve, and what the others answer.

use tenure_api::{Failure, MemberId};
use tenure_replica::{Answer, Consistency, Operation, Read};

use crate::seeds;
use tenure_lab::{
    cluster::{
        World,
        clients::{MoveLeaderClient, RegisterClient, SimClient},
        member::MemberNumber,
        scenario::Replay,
    },
    engine::ms,
    invariants::{heals, no_spin, one_answer::OpenRequest},
};

pub fn started(seed: u64, members: u64) -> (World, MemberNumber, Replay) {
    let replay = Replay::of_test(seed);
    let mut world = World::new(seed, members);
    let leader = world.started(ms(500));
    (world, leader, replay)
}

fn fresh_read() -> Operation {
    Operation::Read(Read::Freshness, Consistency::Linearizable)
}

#[test]
fn minority_refuses_promptly() {
    for seed in seeds(6) {
        for with_leader in [true, false] {
            let (mut world, leader, _replay) = started(seed, 3);
            let alone = if with_leader { leader } else { 1 + leader % 3 };
            world.isolate(alone);
            // Long enough to notice, and then to time out.
            world.run(ms(1000) + ms(1300));
            let put = world.plain_put("alone");
            for request in [put, fresh_read()] {
                let (took, answer) = world.timed_probe(alone, request);
                assert_eq!(answer.err(), Some(Failure::NoLeader));
                assert!(took < ms(20), "the refusal took {took:?}");
            }
            let stale = Operation::Read(Read::Freshness, Consistency::Serializable);
            world.probe(alone, stale).expect("what a member has it can always tell");
        }
    }
}

#[test]
fn minority_answers_pending_requests_soon() {
    for seed in seeds(6) {
        let (mut world, leader, _replay) = started(seed, 3);
        let alone = 1 + leader % 3;
        world.isolate(alone);
        world.run(ms(100));
        let (took, answer) = world.timed_probe(alone, fresh_read());
        assert_eq!(answer.err(), Some(Failure::NoLeader));
        assert!(took < ms(2600), "the refusal took {took:?}");
    }
}

#[test]
fn reads_at_followers_are_served_over_slow_links() {
    for seed in seeds(4) {
        reads_over_slow_links(seed);
    }
}

/// At 60 ms one way a follower's round of reads takes two round trips, longer than four heartbeats.
pub fn reads_over_slow_links(seed: u64) {
    for one_way in [ms(30), ms(60), ms(90)] {
        let (mut world, ..) = started(seed, 3);
        world.net.links.conditions.delay = (one_way, one_way + ms(5));
        world.run(ms(1000));
        for member in world.numbers() {
            let (took, read) = world.timed_probe(member, fresh_read());
            heals::check(read.is_ok(), format!("a read at m{member}"), took, &mut world.counts);
            assert!(took < 6 * (one_way + ms(5)), "a read at m{member} took {took:?}");
        }
    }
}

/// A heartbeat to each follower and its answer, and no call in between: not 100 times a second by raft's tick.
#[test]
fn idle_members_sleep_between_heartbeats() {
    let (mut world, _leader, _replay) = started(1, 3);
    world.run(ms(2000));
    let before = world.counts.of(no_spin::NAME);
    world.run(ms(10_000));
    let calls = world.counts.of(no_spin::NAME) - before;
    let heartbeats = 200;
    assert!(calls < 7 * heartbeats, "{calls} calls in {heartbeats} heartbeats");
}

/// A and B cannot hear each other, C hears both.
#[test]
fn partial_partition_keeps_serving() {
    for seed in seeds(6) {
        let (mut world, leader, _replay) = started(seed, 3);
        let (b, c) = (1 + leader % 3, 1 + (leader + 1) % 3);
        for (a, b) in [(leader, b), (b, leader)] {
            world.net.links.cut(a, b);
        }
        let term = world.members[&leader].process.as_ref().unwrap().replica.durable_term();
        for _ in 0..20 {
            for member in [leader, c] {
                let put = world.plain_put("partial");
                let (took, answer) = world.timed_probe(member, put);
                assert!(answer.is_ok(), "{answer:?}");
                assert!(took < ms(100), "a write took {took:?}");
            }
            world.run(ms(300));
        }
        let now = world.members[&leader].process.as_ref().unwrap().replica.durable_term();
        assert_eq!(now, term, "a half isolated member does not disturb the leader");
    }
}

/// Clients whose requests may not fail.
struct Demanding(RegisterClient);

impl SimClient for Demanding {
    fn turn(&mut self, me: usize, world: &mut World) {
        self.0.turn(me, world);
    }

    fn answered(&mut self, me: usize, world: &mut World, open: &OpenRequest, answer: &Answer) {
        let expected = [Failure::Compacted, Failure::FutureRevision];
        if let Err(failure) = answer.result {
            assert!(expected.contains(&failure), "{:?} failed: {failure}", open.request);
        }
        self.0.answered(me, world, open, answer);
    }
}

#[test]
fn move_leader_fails_no_request() {
    let mut moved = 0;
    for seed in seeds(6) {
        let (mut world, _, _replay) = started(seed, 3);
        for _ in 0..6 {
            world.add_client(Demanding(RegisterClient::default()));
        }
        world.add_client(MoveLeaderClient);
        world.run(ms(4000));
        moved += world.counts.of("leader_moved");
        world.come_to_rest();
    }
    assert!(moved > 0);
}

#[test]
fn hand_over_before_a_stop_fails_no_request() {
    for members in [3, 5] {
        for seed in seeds(6) {
            let (mut world, leader, _replay) = started(seed, members);
            for _ in 0..6 {
                world.add_client(Demanding(RegisterClient::default()));
            }
            world.run(ms(300));
            world.hand_over(leader);
            let gone =
                world.run_until(ms(300), |world| world.leader().is_some_and(|now| now != leader));
            assert!(gone.is_some(), "the leader does not hand over");
            world.run(ms(500));
            world.come_to_rest();
        }
    }
}

/// The best successor on paper cannot write its vote: it answers heartbeats, and has all entries.
#[test]
fn hand_over_picks_another_member_if_the_first_cannot_lead() {
    for seed in seeds(6) {
        let (mut world, leader, _replay) = started(seed, 3);
        let first = world.numbers().into_iter().find(|number| *number != leader).unwrap();
        world.stall_disk(first, ms(60_000));
        world.hand_over(leader);
        let gone =
            world.run_until(ms(700), |world| world.leader().is_some_and(|now| now != leader));
        assert!(gone.is_some(), "the leader insists on its first choice");
    }
}

#[test]
fn move_leader_to_a_non_member_is_refused() {
    let (mut world, leader, _replay) = started(1, 3);
    let stranger = world.probe(leader, Operation::MoveLeader(MemberId(99)));
    assert_eq!(stranger.err(), Some(Failure::BadLeaderTransferee));
    let follower = 1 + leader % 3;
    let request = Operation::MoveLeader(MemberId(follower));
    assert_eq!(world.probe(follower, request).err(), Some(Failure::NotLeader));
}
