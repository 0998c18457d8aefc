//! Faults of a cluster. Every fault that lasts has its end scheduled.

use std::time::Duration;

use tenure_replica::{Input, Moment};

use super::{
    World,
    disk::SLOW,
    event::WorldEvent,
    member::{MemberNumber, SimMember},
    progress::record_fault,
};
use crate::{
    engine::{Links, RunCounts, SimClock, TraceEvent, ms},
    faults::{Action, FOREVER, FaultHost, FaultScript, ScriptStep, Target, Undo, between},
};

/// How long a member has to hand over before its process ends.
const HAND_OVER: Duration = ms(300);
/// The power fails within this many disk operations.
const POWER_OPERATIONS: u64 = 40;

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
        self.inject(&step.action, step.lasts.unwrap_or(FOREVER));
        record_fault(step);
    }

    /// The process ends, and its disk is damaged, unless the disks of a minority are damaged already.
    fn damage_disk(&mut self, number: MemberNumber, action: &Action, lasts: Duration) {
        let damaged = |one: &MemberNumber| self.members[one].disk.device.is_damaged();
        let members = self.numbers();
        let others = members.iter().filter(|one| damaged(one)).count();
        if damaged(&number) || others >= members.len().saturating_sub(1) / 2 {
            return;
        }
        self.crash_and_restart(number, lasts);
        let device = self.members[&number].disk.device.clone();
        let at = match action {
            Action::DiskRots(_) => device.rot(&mut self.dice),
            _ => device.misdirect(&mut self.dice),
        };
        let Some(at) = at else { return };
        self.count(action);
        self.trace_of(number, "say", || format!("its disk is damaged: {at}"));
    }

    pub fn hand_over(&mut self, number: MemberNumber) {
        self.hand_in(number, Input::HandOver);
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
        self.agenda.after(duration, WorldEvent::Undo(Undo::Unstall(number)));
    }

    /// Ends all faults; every member runs.
    pub fn heal(&mut self) {
        self.rough = false;
        self.mend_everything();
        self.trace.event(self.agenda.now(), || TraceEvent::new("heal", "** all is well"));
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

    pub fn member_mut(&mut self, number: MemberNumber) -> &mut SimMember {
        self.members.get_mut(&number).expect("only members have faults")
    }
}

impl FaultHost for World {
    const FLAP: Duration = ms(70);

    fn now(&self) -> Moment {
        World::now(self)
    }

    fn named(&self, name: &str) -> Option<MemberNumber> {
        number(name).filter(|one| self.members.contains_key(one))
    }

    fn leaders(&self) -> Vec<MemberNumber> {
        self.leader().into_iter().collect()
    }

    fn all(&self) -> Vec<MemberNumber> {
        self.numbers()
    }

    fn is_up(&self, member: MemberNumber) -> bool {
        self.members[&member].process.is_some()
    }

    fn is_rough(&self) -> bool {
        self.rough
    }

    fn links(&mut self) -> &mut Links {
        &mut self.net.links
    }

    fn counts(&mut self) -> &mut RunCounts {
        &mut self.counts
    }

    fn clock(&mut self, member: MemberNumber) -> &mut SimClock {
        &mut self.member_mut(member).clock
    }

    fn slowness(&mut self, member: MemberNumber) -> &mut Duration {
        &mut self.member_mut(member).slow
    }

    fn start(&mut self, member: MemberNumber) {
        World::start(self, member);
    }

    fn crash(&mut self, member: MemberNumber) {
        World::crash(self, member);
    }

    fn pause(&mut self, member: MemberNumber, lasts: Duration) {
        World::pause(self, member, lasts);
    }

    fn mend_everything(&mut self) {
        self.net.links.mend_all();
        self.net.links.clear_conditions();
        self.snapshot_failures = 0;
        self.numbers().into_iter().for_each(|number| self.mend_member(number));
    }

    fn undo_after(&mut self, lasts: Duration, undo: Undo) {
        self.agenda.after(lasts, WorldEvent::Undo(undo));
    }

    fn inject_in_cluster(&mut self, action: &Action, lasts: Duration) {
        match action {
            Action::Reset(a, b) | Action::ResetOneWay(a, b) => {
                let both = matches!(action, Action::Reset(..));
                for (a, b) in between(&self.targets(a), &self.targets(b), false) {
                    if both { self.reset(a, b) } else { self.reset_one_way(a, b) }
                }
                self.count(action);
            }
            Action::DiskSlows(target) => {
                for one in self.hit(target, action) {
                    self.member_mut(one).disk.flush = SLOW;
                    self.undo_after(lasts, Undo::FastDisk(one));
                }
            }
            Action::DiskSlowsBy(target, (low, high)) => {
                for one in self.hit(target, action) {
                    let member = self.member_mut(one);
                    let usual = member.usual_flush;
                    member.disk.flush = (usual.0 + *low, usual.1 + *high);
                    self.undo_after(lasts, Undo::FastDisk(one));
                }
            }
            Action::DiskStalls(target) => {
                self.hit(target, action).into_iter().for_each(|one| self.stall_disk(one, lasts));
            }
            Action::DiskFills(target) => {
                for one in self.targets(target) {
                    self.member_mut(one).disk.full = true;
                    self.undo_after(lasts, Undo::Unfill(one));
                }
            }
            Action::DiskFails(target) => {
                for one in self.targets(target) {
                    self.member_mut(one).disk.fails = true;
                    // The disk is replaced and the member starts again.
                    self.undo_after(lasts, Undo::Start(one));
                }
            }
            Action::DiskRots(target) | Action::DiskMisplaces(target) => {
                for one in self.targets(target) {
                    self.damage_disk(one, action, lasts);
                }
            }
            Action::PowerFails(target) => {
                for one in self.targets(target) {
                    let left = self.dice.below(POWER_OPERATIONS) as u32;
                    self.members[&one].disk.device.set_power(Some(left));
                    self.undo_after(lasts, Undo::Start(one));
                }
            }
            Action::SnapshotsFail => {
                self.snapshot_failures = 500;
                self.undo_after(lasts, Undo::SnapshotsSucceed);
            }
            Action::HandOver => {
                let Some(leader) = self.leader() else { return };
                self.hand_over(leader);
                // It is stopping: what it does not finish until then is lost.
                let life = self.members[&leader].life;
                self.agenda.after(HAND_OVER, WorldEvent::Crash { member: leader, life });
                self.undo_after(HAND_OVER + ms(50) + lasts / 4, Undo::Start(leader));
                self.count(action);
            }
            _ => unreachable!("a stage can have `{action}`, too"),
        }
    }

    fn undo_in_cluster(&mut self, undo: Undo) {
        match undo {
            Undo::FastDisk(member) => {
                let member = self.member_mut(member);
                member.disk.flush = member.usual_flush;
            }
            Undo::Unstall(member) => {
                let disk = &mut self.member_mut(member).disk;
                disk.stalls = disk.stalls.saturating_sub(1);
            }
            Undo::Unfill(member) => {
                self.member_mut(member).disk.full = false;
                World::start(self, member);
            }
            Undo::SnapshotsSucceed => self.snapshot_failures = 0,
            _ => unreachable!("a stage can have {undo:?}, too"),
        }
    }
}

/// The number of the member with this name.
fn number(name: &str) -> Option<MemberNumber> {
    name.strip_prefix('m')?.parse().ok()
}
