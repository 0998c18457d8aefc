//! What is done to a cluster.
//!
//! Each fault is injected, lasts for a while and is mended, by itself or by the next round of mending. It answers
//! whether it really took effect: a disk that was full but never written to does not count. A `storm` is made of
//! several that are in force at the same time.

mod clocks;
mod disks;
mod members;
mod network;
mod processes;
mod storm;

use std::{collections::BTreeSet, fmt, time::Duration};

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
    /// Two members do not see each other, but all others.
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
    /// Power loss of one member: what was not flushed is gone.
    PowerLoss,
    /// Power loss of all members at once.
    PowerLossAll,
    /// Flushes of one member take long.
    DiskSlow,
    /// Flushes of one member do not end for seconds.
    DiskStalled,
    /// SIGSTOP of a member, for longer than leases live.
    Suspend,
    /// Wall clocks jump.
    ClockJump,
    /// A member is removed, and a new one with an empty disk added in its place.
    Replace,
    /// A member is away for longer than the log is kept.
    Snapshot,
    /// History is forgotten.
    Compact,
    /// Links, clocks, processes and a disk at once.
    Storm,
    /// The same, and meanwhile a member is replaced and gets a snapshot.
    StormReplace,
}

use Fault::*;

impl Fault {
    /// All there are.
    pub const ALL: [Fault; 27] = [
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
        PowerLoss,
        PowerLossAll,
        DiskSlow,
        DiskStalled,
        Suspend,
        ClockJump,
        Replace,
        Snapshot,
        Compact,
        Storm,
        StormReplace,
    ];

    /// All that can be done here.
    pub fn possible() -> Vec<Fault> {
        Fault::ALL.into_iter().filter(|fault| fault.left_out().is_none()).collect()
    }

    /// Why it cannot be done here, if it cannot.
    pub fn left_out(self) -> Option<&'static str> {
        match self {
            DiskFull if !tools::is_root() => Some("only root may mount a small disk to fill"),
            PowerLoss | PowerLossAll | DiskSlow | DiskStalled if !tools::takes_faults() => {
                Some("only a build with debug assertions takes faults from its environment")
            }
            // No storm without a bad disk.
            DiskError | Storm | StormReplace if !tools::may_trace() => {
                Some("strace may not attach to a process here: kernel.yama.ptrace_scope is not 0")
            }
            _ => None,
        }
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
            PowerLoss => "power loss",
            PowerLossAll => "power loss of all",
            DiskSlow => "slow disk",
            DiskStalled => "stalled disk",
            Suspend => "suspended",
            ClockJump => "clock jump",
            Replace => "member replaced",
            Snapshot => "snapshot install",
            Compact => "compaction",
            Storm => "all at once",
            StormReplace => "all at once, member replaced",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// As people say it of several.
pub fn in_words(together: &BTreeSet<Fault>) -> String {
    together.iter().map(|fault| fault.name()).collect::<Vec<_>>().join(" + ")
}

/// What came of a fault.
#[derive(Clone, Debug)]
pub struct Blow {
    /// Whether it really took effect.
    pub struck: bool,
    /// Of a storm: what was in force at the same time.
    pub together: BTreeSet<Fault>,
}

/// Injects a fault, waits, and mends.
pub async fn strike(fault: Fault, ground: &mut Ground, chance: &mut Chance) -> Blow {
    let mut together = BTreeSet::new();
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
        PowerLoss => disks::power_loss(ground, chance).await,
        PowerLossAll => disks::power_loss_of_all(ground, chance).await,
        DiskSlow => disks::slow(ground, chance).await,
        DiskStalled => disks::stalled(ground, chance).await,
        Suspend => processes::suspend(ground, chance).await,
        ClockJump => clocks::jump(ground, chance).await,
        Replace => members::replace(ground, chance).await,
        Snapshot => members::away_too_long(ground, chance).await,
        Compact => members::compact(ground).await,
        Storm => {
            together = storm::strike(ground, chance).await;
            storm::is_one(&together)
        }
        StormReplace => {
            together = storm::strike_and_replace(ground, chance).await;
            storm::is_one(&together) && [Replace, Snapshot].iter().all(|one| together.contains(one))
        }
    };
    ground.wiring.heal();
    Blow { struck, together }
}
