//! When leases end.

use std::time::Duration;

use tenure_api::LeaseId;
use tenure_replica::{Operation, command::Command};

use crate::seeds;
use tenure_lab::{
    cluster::{
        World,
        clients::RegisterClient,
        member::{MemberNumber, id},
        scenario::Replay,
    },
    engine::{ms, us},
    invariants::leases_survive,
};

const LEASE: LeaseId = LeaseId(7);

fn granted(seed: u64, ttl_secs: i64) -> (World, MemberNumber, Replay) {
    granted_in(World::new(seed, 3), seed, ttl_secs)
}

fn granted_in(mut world: World, seed: u64, ttl_secs: i64) -> (World, MemberNumber, Replay) {
    let replay = Replay::of_test(seed);
    let leader = world.started(ms(500));
    grant(&mut world, leader, ttl_secs);
    (world, leader, replay)
}

fn grant(world: &mut World, member: MemberNumber, ttl_secs: i64) {
    let grant = Command::LeaseGrant { id: LEASE, ttl_secs };
    world.probe(member, Operation::Write(grant)).expect("a lease is granted");
}

fn renew(world: &mut World, member: MemberNumber) {
    let renew = Command::LeaseRenew(LEASE);
    world.probe(member, Operation::Write(renew)).expect("the lease lives");
}

/// How long after its last renewal the lease ended.
fn time_to_end(world: &mut World) -> Duration {
    let ended = |world: &mut World| world.truth.leases[&LEASE].ended.is_some();
    world.run_until(ms(60_000), ended).expect("an unrenewed lease ends");
    let story = &world.truth.leases[&LEASE];
    story.ended.expect("just waited for").at.since(story.renewed)
}

#[test]
fn lease_ends_soon_after_its_ttl() {
    for seed in seeds(10) {
        let (mut world, ..) = granted(seed, 2);
        let took = time_to_end(&mut world);
        assert!(took >= ms(1990) && took < ms(2040), "it took {took:?}");
    }
}

#[test]
fn lease_is_prolonged_by_no_more_than_the_leaderless_time() {
    for seed in seeds(10) {
        let (mut world, leader, _replay) = granted(seed, 3);
        world.run(ms(1000));
        world.crash(leader);
        let leaderless = world.must_lead_within(ms(500));
        let took = time_to_end(&mut world);
        let slack = leaderless + ms(100);
        assert!(took >= ms(2990) && took < ms(3000) + slack, "it took {took:?}");
    }
}

/// A follower that lost its leader for a moment and found it again owes that moment, not all the time until the next leader
/// change.
#[test]
fn lease_is_not_prolonged_by_an_old_connection_loss() {
    for seed in seeds(6) {
        let (mut world, leader, _replay) = granted(seed, 2);
        for other in world.numbers().into_iter().filter(|other| *other != leader) {
            world.reset(leader, other);
            world.run(ms(300));
            renew(&mut world, leader);
        }
        assert_eq!(world.leader(), Some(leader), "one lost connection deposes no leader");
        let start = world.now();
        while world.now().since(start) < ms(8000) {
            world.run(ms(500));
            renew(&mut world, leader);
        }
        world.crash(leader);
        let took = time_to_end(&mut world);
        assert!(took < ms(2000) + ms(400), "it took {took:?}");
    }
}

/// The same for a follower that was restarted long ago.
#[test]
fn lease_is_not_prolonged_by_an_old_restart() {
    for seed in seeds(6) {
        let (mut world, leader, _replay) = granted(seed, 2);
        for other in world.numbers().into_iter().filter(|other| *other != leader) {
            // A snapshot of this term: nothing of an older one is applied after the restart.
            for _ in 0..45 {
                renew(&mut world, leader);
            }
            world.run(ms(100));
            world.crash(other);
            world.start(other);
            world.run(ms(100));
        }
        let start = world.now();
        while world.now().since(start) < ms(8000) {
            world.run(ms(500));
            renew(&mut world, leader);
        }
        world.crash(leader);
        let took = time_to_end(&mut world);
        assert!(took < ms(2000) + ms(400), "it took {took:?}");
    }
}

#[test]
fn lease_is_not_prolonged_by_a_leader_that_replayed_late() {
    for seed in seeds(6) {
        late_replay_leads(seed);
    }
}

/// A follower starts again when the lease is nearly over, and leads at once.
pub fn late_replay_leads(seed: u64) {
    let (mut world, leader, _replay) = granted(seed, 3);
    world.run(ms(2200));
    let put = world.plain_put("later");
    world.probe(leader, put).expect("the cluster serves");
    let follower =
        world.numbers().into_iter().find(|other| *other != leader).expect("one of three");
    world.crash(follower);
    world.start(follower);
    world.run(ms(200));
    world.send_request(usize::MAX, leader, Operation::MoveLeader(id(follower)));
    let moved = |world: &mut World| world.leader() == Some(follower);
    world.run_until(ms(2000), moved).expect("the leadership moves");
    let renewed = world.truth.leases[&LEASE].renewed;
    time_to_end(&mut world);
    world.check_leases_end(ms(500));
    assert!(world.truth.leases[&LEASE].renewed == renewed);
}

/// The leader stays, but nothing is committed for longer than a request may take: its own proposals about leases are
/// dropped along with the clients' requests, and must be made again.
#[test]
fn lease_expiry_is_proposed_again_after_it_was_dropped() {
    for seed in seeds(4) {
        let (mut world, leader, _replay) = granted(seed, 1);
        for other in world.numbers().into_iter().filter(|other| *other != leader) {
            world.stall_disk(other, ms(9000));
        }
        // So many that some have to wait behind those under way.
        for _ in 0..200 {
            world.add_client(RegisterClient::default());
        }
        world.run(ms(9000));
        assert_eq!(world.leader(), Some(leader), "followers with stalled disks depose no leader");
        let took = time_to_end(&mut world);
        assert!(took < ms(9000) + ms(1500), "it took {took:?}");
    }
}

/// Both in one batch, so in one round of apply.
#[test]
fn lease_revoked_and_granted_at_once_still_expires() {
    let (mut world, leader, _replay) = granted(1, 1);
    let client = world.clients.len();
    for command in [Command::LeaseRevoke(LEASE), Command::LeaseGrant { id: LEASE, ttl_secs: 1 }] {
        world.send_request(client, leader, Operation::Write(command));
    }
    world.run(ms(100));
    let took = time_to_end(&mut world);
    assert!(took < ms(1100), "it took {took:?}");
}

/// More than one command takes, and more than may be under way at once.
#[test]
fn leases_that_end_together_end_soon() {
    let (mut world, leader, _replay) = granted(1, 1);
    let client = world.clients.len();
    for number in 1000..4000 {
        let grant = Command::LeaseGrant { id: LeaseId(number), ttl_secs: 1 };
        world.send_request(client, leader, Operation::Write(grant));
    }
    world.run(ms(500));
    assert_eq!(world.truth.state().leases.len(), 3001);
    world.run(ms(1000));
    assert_eq!(world.truth.state().leases.len(), 0);
}

#[test]
fn lease_is_not_cut_by_a_paused_leader() {
    for seed in seeds(6) {
        leader_pauses(seed, ms(50));
        leader_pauses(seed, ms(200));
    }
}

/// The raft leader is paused for less than an election timeout, and stays leader.
pub fn leader_pauses(seed: u64, heartbeat: Duration) {
    let world = World::with(seed, 3, |config| config.heartbeat = heartbeat);
    let (mut world, leader, _replay) = granted_in(world, seed, 1);
    world.run(ms(100));
    let pause = ms(170);
    world.pause(leader, pause);
    let took = time_to_end(&mut world);
    assert!(took < ms(1400), "it took {took:?}");
    leases_survive::check(took, ms(1000), pause, &mut world.counts);
}

#[test]
fn lease_gets_back_leaderless_time() {
    for seed in seeds(6) {
        leader_goes_silent(seed);
    }
}

/// No member hears from the raft leader any more, and none is told: it takes an election timeout until there is another
/// one.
pub fn leader_goes_silent(seed: u64) {
    let (mut world, leader, _replay) = granted(seed, 1);
    world.run(ms(100));
    world.isolate(leader);
    let other = |world: &mut World| world.leader().is_some_and(|new| new != leader);
    let leaderless = world.run_until(ms(2000), other).expect("the others choose another");
    let took = time_to_end(&mut world);
    leases_survive::check(took, ms(1000), leaderless, &mut world.counts);
}

#[test]
fn lease_gets_back_time_of_an_isolated_leader() {
    for seed in seeds(6) {
        leader_is_cut_off(seed);
    }
}

/// The raft leader is isolated for less than an election timeout, and stays leader.
pub fn leader_is_cut_off(seed: u64) {
    let (mut world, leader, _replay) = granted(seed, 1);
    world.run(ms(300));
    world.isolate(leader);
    let cut_off = ms(400);
    world.run(cut_off);
    world.net.links.mend_all();
    let took = time_to_end(&mut world);
    assert!(took < ms(1000) + cut_off + ms(200), "it took {took:?}");
    leases_survive::check(took, ms(1000), cut_off, &mut world.counts);
    assert_eq!(world.leader(), Some(leader), "it stays leader");
}

#[test]
fn lease_gets_back_time_of_a_leader_without_incoming_messages() {
    for seed in seeds(6) {
        leader_hears_nobody(seed);
    }
}

/// The raft leader is heard but hears no member, until it gives up and another one leads.
pub fn leader_hears_nobody(seed: u64) {
    let (mut world, leader, _replay) = granted(seed, 2);
    world.run(ms(300));
    let from = world.now();
    for other in world.numbers().into_iter().filter(|other| *other != leader) {
        world.net.links.cut(other, leader);
    }
    let other = |world: &mut World| world.leader().is_some_and(|new| new != leader);
    world.run_until(ms(4000), other).expect("the others choose another");
    let unrenewable = world.now().since(from);
    let took = time_to_end(&mut world);
    assert!(took < ms(2000) + unrenewable + ms(400), "it took {took:?}");
    leases_survive::check(took, ms(2000), unrenewable, &mut world.counts);
}

#[test]
fn lease_gets_back_time_of_a_total_partition() {
    for seed in seeds(12) {
        all_are_cut_off(seed);
    }
}

/// Every member is isolated for longer than the raft leader believes to lead. Its verdict on the lease is in its log by then,
/// and would be committed in the next term.
pub fn all_are_cut_off(seed: u64) {
    let (mut world, leader, _replay) = granted(seed, 1);
    world.run(ms(600));
    let from = world.now();
    world.numbers().into_iter().for_each(|number| world.isolate(number));
    world.run(ms(450));
    assert_eq!(world.leader(), Some(leader), "it leads though its lease is due");
    world.run(ms(900));
    assert_eq!(world.leader(), None, "it noticed that no member hears it");
    world.net.links.mend_all();
    world.must_lead_within(ms(2500));
    let unrenewable = world.now().since(from);
    let took = time_to_end(&mut world);
    assert!(took < ms(1000) + unrenewable + ms(200), "it took {took:?}");
    leases_survive::check(took, ms(1000), unrenewable, &mut world.counts);
}

#[test]
fn lease_gets_back_time_without_commits() {
    for seed in seeds(6) {
        followers_disks_stall(seed);
    }
}

/// The followers answer heartbeats, but their disks are stalled: no renewal can be committed.
pub fn followers_disks_stall(seed: u64) {
    let (mut world, leader, _replay) = granted(seed, 2);
    world.run(ms(500));
    let stalled = ms(2500);
    for other in world.numbers().into_iter().filter(|other| *other != leader) {
        world.stall_disk(other, stalled);
    }
    // What shows the raft leader that nothing is committed.
    let put = world.plain_put("stalled");
    world.send_request(usize::MAX, leader, put);
    let took = time_to_end(&mut world);
    assert!(took < ms(2000) + stalled + ms(200), "it took {took:?}");
    leases_survive::check(took, ms(2000), stalled, &mut world.counts);
}

#[test]
fn lease_renewal_under_way_beats_the_expiry_behind_it() {
    for seed in seeds(6) {
        renewal_under_way(seed);
    }
}

/// The followers' disks are stalled while a renewal is under way; when the lease is over by the raft leader's count, its
/// expiry is behind that renewal in the log.
pub fn renewal_under_way(seed: u64) {
    let (mut world, leader, _replay) = granted(seed, 1);
    world.run(ms(700));
    for other in world.numbers().into_iter().filter(|other| *other != leader) {
        world.stall_disk(other, ms(600));
    }
    let (took, renewed) = world.timed_probe(leader, Operation::Write(Command::LeaseRenew(LEASE)));
    renewed.expect("the lease lives");
    assert!(took >= ms(400), "nothing was stalled: {took:?}");
    world.run(ms(200));
    assert!(world.truth.leases[&LEASE].ended.is_none(), "leases_kept: it was renewed");
}

#[test]
fn lease_lives_if_its_renewal_overtakes_its_expiry() {
    for seed in seeds(40) {
        renewal_at_the_deadline(seed);
    }
}

/// A renewal reaches the raft leader just after its decision on the lease, and is logged before that.
pub fn renewal_at_the_deadline(seed: u64) {
    let (mut world, leader, _replay) = granted(seed, 1);
    let other = 1 + leader % 3;
    let deadline = world.truth.leases[&LEASE].renewed + ms(1000);
    let early = us(50) * (seed % 40) as u32;
    world.run(deadline.since(world.now() + early));
    let renewed = world.probe(other, Operation::Write(Command::LeaseRenew(LEASE)));
    world.run(ms(200));
    let lives = world.truth.leases[&LEASE].ended.is_none();
    assert_eq!(renewed.is_ok(), lives, "leases_kept: its holder was told something else");
}
