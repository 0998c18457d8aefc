//! What is done to a cluster.
//!
//! Each fault strikes, lasts for a while and is mended, by itself or by the next round of mending. It answers
//! whether it really struck: a disk that was full but that nobody wrote to does not count.

mod clocks;
mod disks;
mod members;
mod network;
mod processes;

use std::{fmt, time::Duration};

use super::{Chance, Ground};
use crate::tools;

/// How long most faults last.
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_millis(1500);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// kill -9 of the raft leader.
    KillLeader,
    /// kill -9 of a follower.
    KillFollower,
    /// kill -9 of all members.
    KillAll,
    /// SIGSTOP of the raft leader, for longer than others wait for it.
    StopLeader,
    /// SIGSTOP of some member.
    Stop,
    /// The raft leader is told to hand over.
    HandOver,
    /// SIGTERM of one after the other.
    Rolling,
    /// One member is cut off.
    Isolate,
    /// Two groups that do not see each other.
    Split,
    /// Packets get through in one direction only.
    OneWay,
    /// Two members do not see each other, but everybody else.
    Bridge,
    /// A member that comes and goes.
    Flap,
    /// Packets are lost.
    Loss,
    /// What a member sends is slow.
    Slow,
    /// A full disk.
    DiskFull,
    /// A flush that fails.
    DiskError,
    /// Wall clocks jump.
    ClockJump,
    /// A member is removed, and a new one with an empty disk added in its place.
    Replace,
    /// A member is away for longer than the log is kept.
    Snapshot,
    /// History is forgotten.
    Compact,
    /// Several at once.
    Storm,
}

use Fault::*;

impl Fault {
    /// All that can be done here: to fill a disk, one must be allowed to mount one.
    pub fn possible() -> Vec<Fault> {
        let all = [
            KillLeader,
            KillFollower,
            KillAll,
            StopLeader,
            Stop,
            HandOver,
            Rolling,
            Isolate,
            Split,
            OneWay,
            Bridge,
            Flap,
            Loss,
            Slow,
            DiskFull,
            DiskError,
            ClockJump,
            Replace,
            Snapshot,
            Compact,
            Storm,
        ];
        all.into_iter().filter(|fault| *fault != DiskFull || tools::is_root()).collect()
    }

    /// Those that make another member lead, and how often each of them is taken.
    pub const CHANGES_LEADER: [Fault; 5] = [KillLeader, StopLeader, HandOver, HandOver, HandOver];

    /// As people say it.
    pub fn name(self) -> &'static str {
        match self {
            KillLeader => "kill -9 leader",
            KillFollower => "kill -9 follower",
            KillAll => "kill -9 all",
            StopLeader => "SIGSTOP leader",
            Stop => "SIGSTOP any",
            HandOver => "hand over",
            Rolling => "rolling restart",
            Isolate => "isolate",
            Split => "split",
            OneWay => "one-way cut",
            Bridge => "bridge",
            Flap => "flapping",
            Loss => "packet loss",
            Slow => "slow links",
            DiskFull => "disk full",
            DiskError => "fsync EIO",
            ClockJump => "clock jump",
            Replace => "member replaced",
            Snapshot => "away too long",
            Compact => "compaction",
            Storm => "all at once",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Strikes, waits, and mends. Answers whether it struck.
pub async fn strike(fault: Fault, ground: &mut Ground, chance: &mut Chance) -> bool {
    let struck = match fault {
        KillLeader => processes::kill_leader(ground, chance).await,
        KillFollower => processes::kill_follower(ground, chance).await,
        KillAll => processes::kill_all(ground),
        StopLeader => processes::stop_leader(ground, chance).await,
        Stop => processes::stop_any(ground, chance).await,
        HandOver => processes::hand_over(ground, chance).await,
        Rolling => processes::rolling(ground).await,
        Isolate | Split | OneWay | Bridge | Loss | Slow => {
            network::begin(fault, ground, chance).await;
            tokio::time::sleep(chance.between(2 * SHORT, 2 * LONG)).await;
            true
        }
        Flap => network::flap(ground, chance).await,
        DiskFull => disks::full(ground).await,
        DiskError => disks::error(ground, chance).await,
        ClockJump => clocks::jump(ground, chance).await,
        Replace => members::replace(ground, chance).await,
        Snapshot => members::away_too_long(ground, chance).await,
        Compact => members::compact(ground).await,
        Storm => storm(ground, chance).await,
    };
    ground.wiring.heal();
    struck
}

/// The network fails, clocks jump, one is stopped and one is killed, all at the same time.
async fn storm(ground: &mut Ground, chance: &mut Chance) -> bool {
    let bad = *chance.one_of(&[Isolate, Split, OneWay, Bridge, Loss, Slow]);
    network::begin(bad, ground, chance).await;
    clocks::jump(ground, chance).await;
    let stopped = chance.below(ground.count());
    let killed = (stopped + 1 + chance.below(ground.count() - 1)) % ground.count();
    ground.cluster.members[stopped].pause();
    ground.cluster.members[killed].kill();
    tokio::time::sleep(chance.between(SHORT, LONG)).await;
    ground.begin(killed);
    tokio::time::sleep(chance.between(SHORT, LONG)).await;
    ground.cluster.members[stopped].resume();
    tokio::time::sleep(chance.between(SHORT, LONG)).await;
    true
}
