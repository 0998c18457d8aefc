//! Faults of a cluster. Every fault that lasts has its end scheduled.

use std::time::Duration;

use super::{World, disk::SLOW, event::WorldEvent, member::MemberNumber, progress::record_fault};
use crate::{
    engine::{TraceEvent, ms},
    faults::{
        Action, ClearLink, ClearNetwork, FaultScript, Flapping, ScriptStep, Target, across,
        between, worsen, worsen_links,
    },
};

/// How often a flapping link changes.
const FLAP: Duration = ms(70);
/// How long a member has to hand over before its process ends.
const HAND_OVER: Duration = ms(300);
/// The power fails within this many disk operations.
const POWER_OPERATIONS: u64 = 40;
/// The duration of faults without one.
const LONG: Duration = Duration::from_secs(3600);

/// How a fault ends.
#[derive(Clone, Debug)]
pub enum ClusterUndo {
    Mend(Vec<(MemberNumber, MemberNumber)>),
    FastDisk(MemberNumber),
    Unstall(MemberNumber),
    Unfill(MemberNumber),
    Fast(MemberNumber),
    TrueClock(MemberNumber, i64),
    ClearNetwork(ClearNetwork),
    ClearLinks(Vec<(MemberNumber, MemberNumber)>, ClearLink),
    SnapshotsSucceed,
    Flap(Flapping),
}

impl World {
    /// Follows a script in place of random faults. It may name members that are added later, if `more_may_come`.
    ///
    /// # Errors
    /// If it names an unknown member.
    pub fn follow(&mut self, script: &FaultScript, more_may_come: bool) -> Result<(), String> {
        let last = self.members.keys().next_back().copied().unwrap_or_default();
        let here =
            |name: &str| number(name).is_some_and(|at| at > 0 && (more_may_come || at <= last));
        let known = |target: &Target| match target {
            Target::Named(name) if !here(name) => {
                Err(format!("there is no member {name}; the members are m1 to m{last}"))
            }
            _ => Ok(()),
        };
        for step in &script.steps {
            step.action.targets().into_iter().try_for_each(|target| known(&target))?;
        }
        self.script = Some(script.clone());
        Ok(())
    }

    /// Injects a step of a script, and records it.
    pub fn inject_step(&mut self, step: ScriptStep) {
        if !self.rough {
            return;
        }
        self.trace.event(self.agenda.now(), || {
            TraceEvent::new("fault", format!("** {}", step.action))
                .with("action", step.action.to_string())
                .with("lasts", step.lasts.map(|lasts| lasts.as_micros() as u64))
        });
        self.inject(&step.action, step.lasts.unwrap_or(LONG));
        record_fault(step);
    }

    pub fn inject(&mut self, action: &Action, lasts: Duration) {
        match action {
            Action::Crash(target) => {
                // A member that is down already is restarted, too.
                let all = self.targets(target);
                self.running_targets(target, "crash");
                all.into_iter().for_each(|one| self.crash_and_restart(one, lasts));
            }
            Action::Restart(target) => {
                self.targets(target).into_iter().for_each(|one| self.start(one))
            }
            Action::Pause(target) => {
                let hit = self.running_targets(target, "pause");
                hit.into_iter().for_each(|one| self.pause(one, lasts));
            }
            Action::Slow(target, by) => {
                for one in self.running_targets(target, "slow") {
                    self.member_mut(one).slow = *by;
                    self.agenda.after(lasts, WorldEvent::Undo(ClusterUndo::Fast(one)));
                }
            }
            Action::Cut(a, b) => {
                let links = self.between(a, b, true);
                self.cut(links, lasts);
                self.counts.count("cut");
            }
            Action::CutOneWay(a, b) => {
                let links = self.between(a, b, false);
                self.cut(links, lasts);
                self.counts.count("cut_one_way");
            }
            Action::Isolate(target) => {
                let links = self.between(target, &Target::All, true);
                self.cut(links, lasts);
                self.counts.count("isolate");
            }
            Action::Split(groups) => {
                self.split(groups, lasts);
                self.counts.count("split");
            }
            Action::Flap(a, b) => {
                for ends in self.between(a, b, false) {
                    self.undo(ClusterUndo::Flap(Flapping {
                        ends,
                        cuts: true,
                        every: FLAP,
                        left: lasts,
                    }));
                }
                self.counts.count("flap");
            }
            Action::Reset(a, b) => {
                self.between(a, b, false).into_iter().for_each(|(a, b)| self.reset(a, b));
                self.counts.count("reset");
            }
            Action::ResetOneWay(a, b) => {
                let links = self.between(a, b, false);
                links.into_iter().for_each(|(a, b)| self.reset_one_way(a, b));
                self.counts.count("reset_one_way");
            }
            Action::Lose(_) | Action::Duplicate(_) | Action::Reorder(_) | Action::Delay(..) => {
                if matches!(action, Action::Delay(..)) {
                    self.counts.count("delay");
                }
                if let Some(clears) = worsen(&mut self.net.links.conditions, action) {
                    self.agenda.after(lasts, WorldEvent::Undo(ClusterUndo::ClearNetwork(clears)));
                }
            }
            Action::LoseOn(a, b, _)
            | Action::DuplicateOn(a, b, _)
            | Action::ReorderOn(a, b, _)
            | Action::DelayOn(a, b, _) => {
                let links = self.between(a, b, false);
                if matches!(action, Action::DelayOn(..)) && !links.is_empty() {
                    self.counts.count("link_delay");
                }
                if let Some(clears) = worsen_links(&mut self.net.links, &links, action) {
                    self.agenda
                        .after(lasts, WorldEvent::Undo(ClusterUndo::ClearLinks(links, clears)));
                }
            }
            Action::ClockJumps(target, by) => {
                self.targets(target)
                    .into_iter()
                    .for_each(|one| self.member_mut(one).clock.jump(*by));
                self.counts.count("clock_jump");
            }
            Action::ClockDrifts(target, ppm) => {
                let now = self.now();
                for one in self.targets(target) {
                    let before = self.member_mut(one).clock.ppm();
                    self.member_mut(one).clock.drift(now, *ppm);
                    self.agenda.after(lasts, WorldEvent::Undo(ClusterUndo::TrueClock(one, before)));
                }
                self.counts.count("clock_drift");
            }
            Action::DiskSlows(_)
            | Action::DiskSlowsBy(..)
            | Action::DiskStalls(_)
            | Action::DiskFills(_)
            | Action::DiskFails(_)
            | Action::DiskRots(_)
            | Action::DiskMisplaces(_)
            | Action::PowerFails(_)
            | Action::SnapshotsFail => self.spoil_disk(action, lasts),
            Action::HandOver => {
                let Some(leader) = self.leader() else { return };
                self.hand_over(leader);
                // It is stopping: what it does not finish until then is lost.
                let life = self.members[&leader].life;
                self.agenda.after(HAND_OVER, WorldEvent::Crash { member: leader, life });
                let back = HAND_OVER + ms(50) + lasts / 4;
                self.agenda.after(back, WorldEvent::Start(leader));
                self.counts.count("hand_over");
            }
            Action::Heal => self.mend_everything(),
        }
    }

    fn spoil_disk(&mut self, action: &Action, lasts: Duration) {
        match action {
            Action::DiskSlows(target) => {
                for one in self.running_targets(target, "disk_slows") {
                    self.member_mut(one).disk.flush = SLOW;
                    self.agenda.after(lasts, WorldEvent::Undo(ClusterUndo::FastDisk(one)));
                }
            }
            Action::DiskSlowsBy(target, (low, high)) => {
                for one in self.running_targets(target, "disk_slows_by") {
                    let member = self.member_mut(one);
                    let usual = member.usual_flush;
                    member.disk.flush = (usual.0 + *low, usual.1 + *high);
                    self.agenda.after(lasts, WorldEvent::Undo(ClusterUndo::FastDisk(one)));
                }
            }
            Action::DiskStalls(target) => {
                let hit = self.running_targets(target, "disk_stalls");
                hit.into_iter().for_each(|one| self.stall_disk(one, lasts));
            }
            Action::DiskFills(target) => {
                for one in self.targets(target) {
                    self.member_mut(one).disk.full = true;
                    self.agenda.after(lasts, WorldEvent::Undo(ClusterUndo::Unfill(one)));
                }
            }
            Action::DiskFails(target) => {
                for one in self.targets(target) {
                    self.member_mut(one).disk.fails = true;
                    // The disk is replaced and the member starts again.
                    self.agenda.after(lasts, WorldEvent::Start(one));
                }
            }
            Action::DiskRots(target) | Action::DiskMisplaces(target) => {
                let rots = matches!(action, Action::DiskRots(_));
                for one in self.targets(target) {
                    self.damage_disk(one, rots, lasts);
                }
            }
            Action::PowerFails(target) => {
                for one in self.targets(target) {
                    let left = self.dice.below(POWER_OPERATIONS) as u32;
                    self.members[&one].disk.device.set_power(Some(left));
                    self.agenda.after(lasts, WorldEvent::Start(one));
                }
            }
            Action::SnapshotsFail => {
                self.snapshot_failures = 500;
                self.agenda.after(lasts, WorldEvent::Undo(ClusterUndo::SnapshotsSucceed));
            }
            _ => {}
        }
    }

    /// The process ends, and its disk is damaged, unless the disks of a minority are damaged already.
    fn damage_disk(&mut self, number: MemberNumber, rots: bool, lasts: Duration) {
        let damaged = |one: &MemberNumber| self.members[one].disk.device.is_damaged();
        let members = self.numbers();
        let others = members.iter().filter(|one| damaged(one)).count();
        if damaged(&number) || others >= members.len().saturating_sub(1) / 2 {
            return;
        }
        self.crash_and_restart(number, lasts);
        let device = self.members[&number].disk.device.clone();
        let (what, at) = match rots {
            true => ("disk_rots", device.rot(&mut self.dice)),
            false => ("disk_misplaces", device.misdirect(&mut self.dice)),
        };
        let Some(at) = at else { return };
        self.counts.count(what);
        self.trace_of(number, "say", || format!("its disk is damaged: {at}"));
    }

    fn split(&mut self, groups: &[Vec<String>], lasts: Duration) {
        let numbers = |group: &Vec<String>| -> Vec<MemberNumber> {
            group.iter().filter_map(|name| number(name)).collect()
        };
        let groups: Vec<Vec<MemberNumber>> = groups.iter().map(numbers).collect();
        self.cut(across(&groups), lasts);
    }

    /// The targets whose processes run. The fault counts if there are any.
    fn running_targets(&mut self, target: &Target, felt: &'static str) -> Vec<MemberNumber> {
        let mut hit = self.targets(target);
        hit.retain(|one| self.members[one].process.is_some());
        if !hit.is_empty() {
            self.counts.count(felt);
        }
        hit
    }

    /// The members that a target means now.
    fn targets(&self, target: &Target) -> Vec<MemberNumber> {
        match target {
            Target::Named(name) => {
                number(name).filter(|one| self.members.contains_key(one)).into_iter().collect()
            }
            Target::Leader => self.leader().into_iter().collect(),
            Target::All => self.numbers(),
        }
    }

    fn between(&self, a: &Target, b: &Target, both: bool) -> Vec<(MemberNumber, MemberNumber)> {
        between(&self.targets(a), &self.targets(b), both)
    }

    pub fn hand_over(&mut self, number: MemberNumber) {
        self.hand_in(number, tenure_replica::Input::HandOver);
    }

    pub fn crash_and_restart(&mut self, number: MemberNumber, down_for: Duration) {
        self.crash(number);
        self.agenda.after(down_for, WorldEvent::Start(number));
    }

    pub fn cut(&mut self, links: Vec<(MemberNumber, MemberNumber)>, duration: Duration) {
        for (from, to) in &links {
            self.net.links.cut(*from, *to);
        }
        self.agenda.after(duration, WorldEvent::Undo(ClusterUndo::Mend(links)));
    }

    /// Cuts a member off from all others, silently.
    pub fn isolate(&mut self, number: MemberNumber) {
        for other in self.numbers().into_iter().filter(|other| *other != number) {
            self.net.links.cut(number, other);
            self.net.links.cut(other, number);
        }
    }

    pub fn stall_disk(&mut self, number: MemberNumber, duration: Duration) {
        self.member_mut(number).disk.stalls += 1;
        self.agenda.after(duration, WorldEvent::Undo(ClusterUndo::Unstall(number)));
    }

    pub(super) fn undo(&mut self, undo: ClusterUndo) {
        match undo {
            ClusterUndo::Mend(links) => {
                links.into_iter().for_each(|(from, to)| self.net.links.mend(from, to));
            }
            ClusterUndo::FastDisk(member) => {
                let member = self.member_mut(member);
                member.disk.flush = member.usual_flush;
            }
            ClusterUndo::Unstall(member) => {
                let disk = &mut self.member_mut(member).disk;
                disk.stalls = disk.stalls.saturating_sub(1);
            }
            ClusterUndo::Unfill(member) => {
                self.member_mut(member).disk.full = false;
                self.start(member);
            }
            ClusterUndo::Fast(member) => self.member_mut(member).slow = Duration::ZERO,
            ClusterUndo::TrueClock(member, ppm) => {
                let now = self.now();
                self.member_mut(member).clock.drift(now, ppm);
            }
            ClusterUndo::ClearNetwork(end) => end(&mut self.net.links.conditions),
            ClusterUndo::ClearLinks(links, end) => {
                links.into_iter().for_each(|(from, to)| end(self.net.links.own(from, to)));
            }
            ClusterUndo::SnapshotsSucceed => self.snapshot_failures = 0,
            ClusterUndo::Flap(flapping) => {
                let next = flapping.turn(&mut self.net.links);
                // After the end of all faults the link is mended once more, and stays so.
                if let Some(next) = next.filter(|next| self.rough || !next.cuts) {
                    self.agenda.after(FLAP, WorldEvent::Undo(ClusterUndo::Flap(next)));
                }
            }
        }
    }

    /// Ends all faults; every member runs.
    pub fn heal(&mut self) {
        self.rough = false;
        self.mend_everything();
        self.trace.event(self.agenda.now(), || TraceEvent::new("heal", "** all is well"));
    }

    fn mend_everything(&mut self) {
        self.net.links.mend_all();
        self.net.links.clear_conditions();
        self.snapshot_failures = 0;
        self.numbers().into_iter().for_each(|number| self.mend_member(number));
    }

    /// Ends all faults of a member, but those of its links.
    pub(super) fn mend_member(&mut self, number: MemberNumber) {
        let member = self.member_mut(number);
        member.disk.device.repair();
        member.disk.device.set_power(None);
        member.disk.flush = member.usual_flush;
        member.disk.stalls = 0;
        member.disk.full = false;
        member.disk.fails = false;
        member.slow = Duration::ZERO;
        let life = member.life;
        if let Some(process) = member.process.as_mut().filter(|process| process.pauses > 0) {
            process.pauses = 1;
            self.resume(number, life);
        }
        self.start(number);
    }

    pub fn member_mut(&mut self, number: MemberNumber) -> &mut super::member::SimMember {
        self.members.get_mut(&number).expect("only members have faults")
    }
}

/// The number of the member with this name.
fn number(name: &str) -> Option<MemberNumber> {
    name.strip_prefix('m')?.parse().ok()
}
