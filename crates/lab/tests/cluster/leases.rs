//! When leases end.

use tenure_api::LeaseId;
use tenure_replica::{Request, command::Command};

use crate::seeds;
use tenure_lab::{
    cluster::{World, clients::Registers, member::Number, scenario::Replay},
    engine::ms,
    invariants::leases_survive,
};

const LEASE: LeaseId = LeaseId(7);

fn granted(seed: u64, ttl_secs: i64) -> (World, Number, Replay) {
    let replay = Replay::of_test(seed);
    let mut world = World::new(seed, 3);
    world.start_all();
    world.must_lead_within(ms(1500));
    world.run(ms(500));
    let leader = world.leader().expect("somebody leads after half a second");
    grant(&mut world, leader, ttl_secs);
    (world, leader, replay)
}

fn grant(world: &mut World, member: Number, ttl_secs: i64) {
    let grant = Command::LeaseGrant { id: LEASE, ttl_secs };
    world.probe(member, Request::Write(grant)).expect("a lease is granted");
}

fn renew(world: &mut World, member: Number) {
    let renew = Command::LeaseRenew(LEASE);
    world.probe(member, Request::Write(renew)).expect("the lease lives");
}

/// How long after its last renewal the lease ended.
fn time_to_end(world: &mut World) -> std::time::Duration {
    let ended = |world: &mut World| world.truth.leases[&LEASE].ended.is_some();
    world.run_until(ms(60_000), ended).expect("a lease that nobody renews ends");
    let story = &world.truth.leases[&LEASE];
    story.ended.expect("just waited for").at.since(story.renewed)
}

#[test]
fn an_unrenewed_lease_ends_within_moments_of_its_ttl() {
    for seed in seeds(10) {
        let (mut world, ..) = granted(seed, 2);
        let took = time_to_end(&mut world);
        assert!(took >= ms(1990) && took < ms(2040), "it took {took:?}");
    }
}

#[test]
fn a_leader_change_prolongs_a_lease_by_no_more_than_the_leaderless_time() {
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

/// A follower that lost its leader for a moment and found it again owes that moment, not all the time
/// until the next leader change.
#[test]
fn a_connection_lost_long_ago_does_not_prolong_leases() {
    for seed in seeds(6) {
        let (mut world, leader, _replay) = granted(seed, 2);
        for other in world.numbers().into_iter().filter(|other| *other != leader) {
            world.reset(leader, other);
            world.run(ms(300));
            renew(&mut world, leader);
        }
        assert_eq!(world.leader(), Some(leader), "one lost connection deposes nobody");
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
fn a_restart_long_ago_does_not_prolong_leases() {
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

/// The leader leads on, but nothing is committed for longer than a request may take: what it had to
/// say about leases is given up along with the clients' requests, and must be said again.
#[test]
fn an_expiry_that_was_given_up_on_is_proposed_again() {
    for seed in seeds(4) {
        let (mut world, leader, _replay) = granted(seed, 1);
        for other in world.numbers().into_iter().filter(|other| *other != leader) {
            world.stall_disk(other, ms(9000));
        }
        // So many that some have to wait behind those under way.
        for _ in 0..200 {
            world.add_client(Registers::default());
        }
        world.run(ms(9000));
        assert_eq!(world.leader(), Some(leader), "followers with stalled disks depose nobody");
        let took = time_to_end(&mut world);
        assert!(took < ms(9000) + ms(1500), "it took {took:?}");
    }
}

/// Both in one batch, so in one round of apply.
#[test]
fn a_lease_revoked_and_granted_again_in_one_breath_still_runs_out() {
    let (mut world, leader, _replay) = granted(1, 1);
    let client = world.clients.len();
    for command in [Command::LeaseRevoke(LEASE), Command::LeaseGrant { id: LEASE, ttl_secs: 1 }] {
        world.ask(client, leader, Request::Write(command));
    }
    world.run(ms(100));
    let took = time_to_end(&mut world);
    assert!(took < ms(1100), "it took {took:?}");
}

/// More than one command takes, and more than may be under way at once.
#[test]
fn thousands_of_leases_that_end_together_end_soon() {
    let (mut world, leader, _replay) = granted(1, 1);
    let client = world.clients.len();
    for number in 1000..4000 {
        let grant = Command::LeaseGrant { id: LeaseId(number), ttl_secs: 1 };
        world.ask(client, leader, Request::Write(grant));
    }
    world.run(ms(500));
    assert_eq!(world.truth.state().leases.len(), 3001);
    world.run(ms(1000));
    assert_eq!(world.truth.state().leases.len(), 0);
}

#[test]
fn a_paused_leader_cuts_no_lease() {
    for seed in seeds(6) {
        leader_pauses(seed);
    }
}

/// The raft leader stands still for less than an election timeout, and leads on.
pub fn leader_pauses(seed: u64) {
    let (mut world, leader, _replay) = granted(seed, 1);
    world.run(ms(100));
    let pause = ms(170);
    world.pause(leader, pause);
    let took = time_to_end(&mut world);
    assert!(took < ms(1400), "it took {took:?}");
    leases_survive::judge(took, ms(1000), pause, &mut world.counts);
}

#[test]
fn time_without_a_leader_is_given_back() {
    for seed in seeds(6) {
        leader_goes_silent(seed);
    }
}

/// Nobody hears from the raft leader any more, and nobody is told: it takes an election timeout until there
/// is another one.
pub fn leader_goes_silent(seed: u64) {
    let (mut world, leader, _replay) = granted(seed, 1);
    world.run(ms(100));
    world.isolate(leader);
    let other = |world: &mut World| world.leader().is_some_and(|new| new != leader);
    let leaderless = world.run_until(ms(2000), other).expect("the others choose another");
    let took = time_to_end(&mut world);
    leases_survive::judge(took, ms(1000), leaderless, &mut world.counts);
}

#[test]
fn a_renewal_that_was_under_way_counts_more_than_the_expiry_behind_it() {
    for seed in seeds(6) {
        renewal_under_way(seed);
    }
}

/// The followers' disks stand still while a renewal is on its way; when the lease is over by the raft
/// leader's count, its expiry stands behind that renewal in the log.
pub fn renewal_under_way(seed: u64) {
    let (mut world, leader, _replay) = granted(seed, 1);
    world.run(ms(700));
    for other in world.numbers().into_iter().filter(|other| *other != leader) {
        world.stall_disk(other, ms(600));
    }
    let (took, renewed) = world.timed_probe(leader, Request::Write(Command::LeaseRenew(LEASE)));
    renewed.expect("the lease lives");
    assert!(took >= ms(400), "nothing stood still: {took:?}");
    world.run(ms(200));
    assert!(world.truth.leases[&LEASE].ended.is_none(), "leases_kept: it was renewed");
}
