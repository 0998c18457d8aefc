//! Faults of different kinds in force at the same time, all of them mended only afterwards.
//!
//! A majority may be lost meanwhile: then nothing is promised but that nothing is broken. Answered is what was
//! really in force together; a bad disk that its member did not notice is not.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Fault::{self, *},
    LONG, SHORT, clocks,
    disks::{self, BadDisk, NOTICED_WITHIN},
    members, network, processes,
};
use crate::torture::{Chance, Ground};

const CUTS: [Fault; 4] = [Isolate, Split, OneWay, Bridge];
const POOR: [Fault; 2] = [Loss, Slow];
const PROCESSES: [Fault; 4] = [KillLeader, KillFollower, StopLeader, Stop];
const DISKS: [Fault; 2] = [DiskFull, DiskError];

/// How long a member on a bad disk may take to notice while others are hurt, too: it may have nothing to write.
const NOTICED_SOON: Duration = Duration::from_secs(2);
/// The most packets of a hundred that are lost while a snapshot of some 20 MiB is on its way.
const LOST_MAX: usize = 3;
/// How long a new member may take to have its snapshot over lines that lose packets.
const INSTALLED_WITHIN: Duration = Duration::from_secs(40);

/// Whether lines, processes and a disk were bad at the same time.
pub(super) fn is_one(together: &BTreeSet<Fault>) -> bool {
    let any = |of: &[Fault]| of.iter().any(|fault| together.contains(fault));
    (any(&CUTS) || any(&POOR)) && any(&PROCESSES) && any(&DISKS)
}

/// The members that are hurt, each in another way.
#[derive(Clone, Copy)]
struct Victims {
    sick: usize,
    stopped: usize,
    killed: usize,
}

impl Victims {
    /// Any three; sometimes the member with the small disk is the sick one.
    fn choose(ground: &Ground, chance: &mut Chance) -> Victims {
        let mut places: Vec<usize> = (0..ground.count()).collect();
        chance.shuffle(&mut places);
        if chance.percent(50) {
            let first = places.iter().position(|at| *at == 0).expect("there is a first");
            places.swap(0, first);
        }
        Victims { sick: places[0], stopped: places[1], killed: places[2] }
    }

    /// Its disk goes bad: full where that can be done, unable to flush elsewhere.
    fn bad_disk(&self, ground: &Ground, chance: &mut Chance) -> BadDisk {
        let full = if self.sick == 0 && chance.percent(70) { BadDisk::full(ground) } else { None };
        full.unwrap_or_else(|| BadDisk::broken(ground, self.sick))
    }
}

/// What is hurt, one after the other, and mended in another order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Lines,
    Clocks,
    Disk,
    Stopped,
    Killed,
}

/// What is in force.
struct Storm {
    victims: Victims,
    disk: Option<BadDisk>,
    together: BTreeSet<Fault>,
}

/// Links are cut, clocks jump, a disk goes bad, one member is stopped or one is killed, or both.
pub(super) async fn strike(ground: &mut Ground, chance: &mut Chance) -> BTreeSet<Fault> {
    let victims = Victims::choose(ground, chance);
    let mut storm = Storm { victims, disk: None, together: BTreeSet::new() };
    // A bad disk is noticed while clients write, so it comes before too few members are left for that.
    let mut parts = vec![Part::Lines, Part::Clocks, Part::Disk];
    chance.shuffle(&mut parts);
    let processes: &[&[Part]] =
        &[&[Part::Stopped], &[Part::Killed], &[Part::Killed, Part::Stopped]];
    parts.extend(*chance.one_of(processes));
    for part in &parts {
        storm.begin(*part, ground, chance).await;
    }
    tokio::time::sleep(chance.between(SHORT, LONG)).await;
    if let Some(disk) = &storm.disk
        && disk.is_noticed(ground, Duration::ZERO).await
    {
        storm.together.insert(disk.fault());
    }
    // They come back into what is still broken.
    chance.shuffle(&mut parts);
    for part in parts {
        storm.end(part, ground).await;
        tokio::time::sleep(chance.between(Duration::ZERO, 2 * SHORT)).await;
    }
    storm.together
}

impl Storm {
    async fn begin(&mut self, part: Part, ground: &mut Ground, chance: &mut Chance) {
        let Victims { stopped, killed, .. } = self.victims;
        match part {
            Part::Lines => self.together.extend(bad_lines(ground, chance).await),
            Part::Clocks => {
                clocks::jump(ground, chance).await;
                self.together.insert(ClockJump);
            }
            Part::Disk => {
                let disk = self.victims.bad_disk(ground, chance);
                disk.is_noticed(ground, NOTICED_SOON).await;
                self.disk = Some(disk);
            }
            Part::Stopped => {
                let leads = ground.leader().await == Some(stopped);
                ground.cluster.members[stopped].pause();
                self.together.insert(if leads { StopLeader } else { Stop });
            }
            Part::Killed => {
                let leads = ground.leader().await == Some(killed);
                ground.cluster.members[killed].kill();
                self.together.insert(if leads { KillLeader } else { KillFollower });
            }
        }
    }

    async fn end(&mut self, part: Part, ground: &mut Ground) {
        let Victims { stopped, killed, .. } = self.victims;
        match part {
            Part::Lines => ground.wiring.heal(),
            // They go on from where they are.
            Part::Clocks => {}
            Part::Disk => {
                if let Some(disk) = self.disk.take() {
                    disks::mend(disk, ground).await;
                }
            }
            Part::Stopped => ground.cluster.members[stopped].resume(),
            Part::Killed => ground.begin(killed),
        }
    }
}

/// Some are cut off, and sometimes what is left loses packets or is slow.
async fn bad_lines(ground: &Ground, chance: &mut Chance) -> Vec<Fault> {
    let mut bad = vec![*chance.one_of(&CUTS)];
    if chance.percent(50) {
        bad.push(*chance.one_of(&POOR));
    }
    for fault in &bad {
        network::begin(*fault, ground, chance).await;
    }
    bad
}

/// A member ends of its disk and is replaced by a new one, which gets a snapshot, while packets are lost, links are
/// slow, clocks jump, a member is stopped again and again, and, of five, another one is dead.
pub(super) async fn strike_and_replace(
    ground: &mut Ground,
    chance: &mut Chance,
) -> BTreeSet<Fault> {
    ground.serves().await;
    let victims = Victims::choose(ground, chance);
    let Victims { sick, stopped, killed } = victims;
    let views = ground.look().await;
    let Some(id) = views.iter().find(|view| view.at == sick).map(|view| view.id) else {
        return BTreeSet::new();
    };
    let mut together = BTreeSet::from([Loss, ClockJump]);
    ground.wiring.lose(1 + chance.below(LOST_MAX));
    clocks::jump(ground, chance).await;
    let disk = victims.bad_disk(ground, chance);
    if !disk.is_noticed(ground, NOTICED_WITHIN).await {
        disks::mend(disk, ground).await;
        return together;
    }
    together.insert(disk.fault());
    let member = &mut ground.cluster.members[sick];
    if member.ended().is_some() {
        member.wait_for_end().await;
    } else {
        // It has noticed, and could do without what it wanted to write.
        member.kill();
    }
    let leader = ground.some_leader().await;
    let spare = ground.count() > 3;
    // A snapshot would take minutes from a raft leader that is slow.
    let gone = |at: usize| at == sick || spare && at == killed;
    let slow = (0..ground.count()).find(|at| !gone(*at) && *at != leader);
    ground.wiring.slow(slow.expect("two are left"));
    if spare {
        ground.cluster.members[killed].kill();
        together.insert(if leader == killed { KillLeader } else { KillFollower });
    }
    together.extend([Slow, Stop]);
    let stutter = processes::stutter(ground.cluster.members[stopped].pid(), chance.branch());
    let voted = tokio::select! {
        never = stutter => match never {},
        voted = replace(ground, sick, id, disk) => voted,
    };
    ground.cluster.members[stopped].resume();
    if spare {
        ground.begin(killed);
    }
    if voted {
        together.extend([Replace, Snapshot]);
    } else {
        ground.wiring.heal();
        members::promote(&ground.any(), ground, sick).await;
    }
    together
}

/// As an operator would after a machine is gone: the new member learns before it votes, because no more than a
/// majority is there. Answers whether it was sent a snapshot in time, and has its vote.
async fn replace(ground: &mut Ground, at: usize, id: u64, disk: BadDisk) -> bool {
    let before = members::installed(ground);
    let client = ground.any();
    members::remove(&client, id).await;
    // The new one has a disk that works.
    drop(disk);
    members::add(&client, ground, at, true).await;
    ground.begin(at);
    let installed = members::is_installed(ground, before, INSTALLED_WITHIN).await;
    if installed {
        members::promote(&client, ground, at).await;
    }
    installed
}
