//! Processes that are killed, stopped, and told to go.

use std::{convert::Infallible, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use super::{LONG, SHORT};
use crate::{
    pb,
    torture::{Chance, Ground},
};

/// How long a member that was told to stop, or to hand over, may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// No lease and no session of the clients lives so long without a renewal.
const LONGER_THAN_LEASES: Duration = Duration::from_millis(3500);

pub(super) async fn kill_leader(ground: &mut Ground, chance: &mut Chance) -> bool {
    let leader = ground.some_leader().await;
    ground.cluster.members[leader].kill();
    tokio::time::sleep(chance.between(SHORT, 3 * SHORT)).await;
    ground.begin(leader);
    true
}

pub(super) async fn kill_follower(ground: &mut Ground, chance: &mut Chance) -> bool {
    let leader = ground.some_leader().await;
    let follower = (leader + 1 + chance.below(ground.count() - 1)) % ground.count();
    ground.cluster.members[follower].kill();
    tokio::time::sleep(chance.between(SHORT, LONG)).await;
    ground.begin(follower);
    true
}

pub(super) fn kill_all(ground: &mut Ground) -> bool {
    for member in &mut ground.cluster.members {
        member.kill();
    }
    for at in 0..ground.count() {
        ground.begin(at);
    }
    true
}

/// For longer than an election takes, and sometimes for longer than sessions live.
pub(super) async fn stop_leader(ground: &mut Ground, chance: &mut Chance) -> bool {
    let leader = ground.some_leader().await;
    ground.cluster.members[leader].pause();
    let longest = if chance.percent(20) { 2 * LONG } else { LONG };
    tokio::time::sleep(chance.between(4 * SHORT, longest)).await;
    ground.cluster.members[leader].resume();
    true
}

pub(super) async fn stop_any(ground: &mut Ground, chance: &mut Chance) -> bool {
    let stopped = chance.below(ground.count());
    ground.cluster.members[stopped].pause();
    tokio::time::sleep(chance.between(SHORT, 2 * LONG)).await;
    ground.cluster.members[stopped].resume();
    true
}

/// A member stands still for longer than its peers wait for it and than leases and sessions live.
pub(super) async fn suspend(ground: &mut Ground, chance: &mut Chance) -> bool {
    let leader = ground.some_leader().await;
    let at = if chance.percent(50) { leader } else { chance.below(ground.count()) };
    ground.cluster.members[at].pause();
    tokio::time::sleep(chance.between(LONGER_THAN_LEASES, LONGER_THAN_LEASES + LONG)).await;
    ground.cluster.members[at].resume();
    true
}

/// Stops a process and lets it go on, again and again.
pub(super) async fn stutter(pid: u32, mut chance: Chance) -> Infallible {
    let pid = Pid::from_raw(pid as i32).expect("a process id is not 0");
    loop {
        for signal in [Signal::STOP, Signal::CONT] {
            // One that ended by itself is found later.
            let _ = kill_process(pid, signal);
            tokio::time::sleep(chance.between(SHORT, 4 * SHORT)).await;
        }
    }
}

pub(super) async fn hand_over(ground: &mut Ground, chance: &mut Chance) -> bool {
    let leader = ground.some_leader().await;
    let views = ground.look().await;
    let others: Vec<_> = views.iter().filter(|view| view.at != leader).collect();
    if others.is_empty() {
        return false;
    }
    let target_id = chance.one_of(&others).id;
    let request = pb::MoveLeaderRequest { target_id };
    let client = ground.client(leader).clone();
    let moved = tokio::time::timeout(PATIENCE, client.maintenance().move_leader(request)).await;
    matches!(moved, Ok(Ok(_)))
}

/// As for an upgrade: each goes when the one before is back.
pub(super) async fn rolling(ground: &mut Ground) -> bool {
    for at in 0..ground.count() {
        ground.serves().await;
        let ended = ground.cluster.members[at].stop().await;
        assert!(ended.success(), "{} ended with {ended}", ground.cluster.members[at].name);
        ground.begin(at);
    }
    true
}
