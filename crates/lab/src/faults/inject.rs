//! The runner of faults, on a stage and in a cluster: what each does to processes, links and clocks, and how it ends.

use std::time::Duration;

use tenure_replica::Moment;

use super::{
    Action, LinkFault, Target,
    links::{Flapping, across, between, ease, worsen},
};
use crate::engine::{Links, NetworkConditions, ProcessId, RunCounts, SimClock};

/// The duration of faults without one: longer than any run.
pub const FOREVER: Duration = Duration::from_secs(1000 * 24 * 3600);

type LinkEnds = Vec<(ProcessId, ProcessId)>;

/// How a fault ends.
#[derive(Clone, Debug)]
pub enum Undo {
    Start(ProcessId),
    Fast(ProcessId),
    Mend(LinkEnds),
    Network(LinkFault),
    Links(LinkEnds, LinkFault),
    ClockRate(ProcessId, i64),
    Flap(Flapping),
    // Of clusters only.
    FastDisk(ProcessId),
    Unstall(ProcessId),
    Unfill(ProcessId),
    SnapshotsSucceed,
}

/// What faults are injected into: a stage or a cluster.
pub trait FaultHost {
    /// How often a flapping link changes.
    const FLAP: Duration;

    fn now(&self) -> Moment;
    fn named(&self, name: &str) -> Option<ProcessId>;
    fn leaders(&self) -> Vec<ProcessId>;
    /// What `all` means in a script.
    fn all(&self) -> Vec<ProcessId>;
    /// Whatever an isolated process is cut off from.
    fn everything(&self) -> Vec<ProcessId> {
        self.all()
    }
    fn is_up(&self, process: ProcessId) -> bool;
    /// Whether faults may still be injected.
    fn is_rough(&self) -> bool {
        true
    }

    fn links(&mut self) -> &mut Links;
    fn counts(&mut self) -> &mut RunCounts;
    fn clock(&mut self, process: ProcessId) -> &mut SimClock;
    /// What a fault adds to the time that everything takes there.
    fn slowness(&mut self, process: ProcessId) -> &mut Duration;

    fn start(&mut self, process: ProcessId);
    fn crash(&mut self, process: ProcessId);
    fn pause(&mut self, process: ProcessId, lasts: Duration);
    /// All faults end.
    fn mend_everything(&mut self);
    fn undo_after(&mut self, lasts: Duration, undo: Undo);

    /// Injects a fault that only a cluster can have.
    fn inject_in_cluster(&mut self, action: &Action, lasts: Duration);
    fn undo_in_cluster(&mut self, undo: Undo);

    /// The processes that a target means now.
    fn targets(&self, target: &Target) -> Vec<ProcessId> {
        match target {
            Target::Named(name) => self.named(name).into_iter().collect(),
            Target::Leader => self.leaders(),
            Target::All => self.all(),
        }
    }

    /// The targets that are up. The fault counts if there are any.
    fn hit(&mut self, target: &Target, action: &Action) -> Vec<ProcessId> {
        let mut hit = self.targets(target);
        hit.retain(|one| self.is_up(*one));
        if !hit.is_empty() {
            self.count(action);
        }
        hit
    }

    fn count(&mut self, action: &Action) {
        if let Some(name) = action.counted_as() {
            self.counts().count(name);
        }
    }

    fn crash_and_restart(&mut self, process: ProcessId, down_for: Duration) {
        self.crash(process);
        self.undo_after(down_for, Undo::Start(process));
    }

    fn cut(&mut self, links: LinkEnds, lasts: Duration) {
        links.iter().for_each(|(from, to)| self.links().cut(*from, *to));
        self.undo_after(lasts, Undo::Mend(links));
    }

    /// Injects a fault now, and schedules its end.
    fn inject(&mut self, action: &Action, lasts: Duration) {
        let ends = |a: &Target, b: &Target, both| between(&self.targets(a), &self.targets(b), both);
        match action {
            Action::Crash(target) => {
                // One that is down already is restarted, too.
                let all = self.targets(target);
                self.hit(target, action);
                all.into_iter().for_each(|one| self.crash_and_restart(one, lasts));
            }
            Action::Restart(target) => {
                self.targets(target).into_iter().for_each(|one| self.start(one))
            }
            Action::Pause(target) => {
                self.hit(target, action).into_iter().for_each(|one| self.pause(one, lasts));
            }
            Action::Slow(target, by) => {
                for one in self.hit(target, action) {
                    *self.slowness(one) = *by;
                    self.undo_after(lasts, Undo::Fast(one));
                }
            }
            Action::Cut(..) | Action::CutOneWay(..) | Action::Isolate(_) | Action::Split(_) => {
                let links = match action {
                    Action::Cut(a, b) => ends(a, b, true),
                    Action::CutOneWay(a, b) => ends(a, b, false),
                    Action::Isolate(target) => {
                        between(&self.targets(target), &self.everything(), true)
                    }
                    Action::Split(groups) => {
                        let group = |names: &Vec<String>| {
                            names.iter().filter_map(|name| self.named(name)).collect()
                        };
                        across(&groups.iter().map(group).collect::<Vec<_>>())
                    }
                    _ => unreachable!("the others cut nothing"),
                };
                self.cut(links, lasts);
                self.count(action);
            }
            Action::Flap(a, b) => {
                for ends in ends(a, b, false) {
                    let flapping = Flapping { ends, cuts: true, every: Self::FLAP, left: lasts };
                    self.undo(Undo::Flap(flapping));
                }
                self.count(action);
            }
            // The others count when they hit a message.
            Action::Network(fault) => {
                if matches!(fault, LinkFault::Delay(..)) {
                    self.count(action);
                }
                worsen(&mut self.links().conditions, *fault);
                self.undo_after(lasts, Undo::Network(*fault));
            }
            Action::Link(a, b, fault) => {
                let links = ends(a, b, false);
                if matches!(fault, LinkFault::Delay(..)) && !links.is_empty() {
                    self.count(action);
                }
                for (from, to) in &links {
                    worsen(self.links().own(*from, *to), *fault);
                }
                self.undo_after(lasts, Undo::Links(links, *fault));
            }
            Action::ClockJumps(target, by) => {
                self.targets(target).into_iter().for_each(|one| self.clock(one).jump(*by));
                self.count(action);
            }
            Action::ClockDrifts(target, ppm) => {
                let now = self.now();
                for one in self.targets(target) {
                    let before = self.clock(one).ppm();
                    self.clock(one).drift(now, *ppm);
                    self.undo_after(lasts, Undo::ClockRate(one, before));
                }
                self.count(action);
            }
            Action::Heal => self.mend_everything(),
            _ => self.inject_in_cluster(action, lasts),
        }
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Start(one) => self.start(one),
            Undo::Fast(one) => *self.slowness(one) = Duration::ZERO,
            Undo::Mend(links) => {
                links.into_iter().for_each(|(from, to)| self.links().mend(from, to));
            }
            Undo::Network(fault) => {
                ease(&mut self.links().conditions, fault, NetworkConditions::default());
            }
            Undo::Links(links, fault) => {
                for (from, to) in links {
                    ease(self.links().own(from, to), fault, NetworkConditions::NONE);
                }
            }
            Undo::ClockRate(one, ppm) => {
                let now = self.now();
                self.clock(one).drift(now, ppm);
            }
            Undo::Flap(flapping) => {
                let next = flapping.turn(self.links());
                // After the end of all faults the link is mended once more, and stays so.
                if let Some(next) = next.filter(|next| self.is_rough() || !next.cuts) {
                    self.undo_after(Self::FLAP, Undo::Flap(next));
                }
            }
            _ => self.undo_in_cluster(undo),
        }
    }
}
