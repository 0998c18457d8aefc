//! Faults on a stage.

use std::time::Duration;

use super::{ProcessId, ProtocolMessage, STORAGE, Stage, slot::StageEvent};
use crate::{
    engine::{TraceEvent, ms},
    faults::{
        Action, ClearLink, ClearNetwork, FaultScript, Flapping, Target, across, between, worsen,
        worsen_links, write_span,
    },
};

/// How often a flapping link changes.
const FLAP: Duration = ms(150);

/// How a fault ends.
#[derive(Clone, Debug)]
pub(super) enum StageUndo {
    Mend(Vec<(ProcessId, ProcessId)>),
    ClearNetwork(ClearNetwork),
    ClearLinks(Vec<(ProcessId, ProcessId)>, ClearLink),
    Fast(ProcessId),
    Flap(Flapping),
}

impl<M: ProtocolMessage> Stage<M> {
    /// Injects the faults of a script at their times.
    pub fn follow(&mut self, script: &FaultScript) -> Result<(), String> {
        for step in &script.steps {
            self.check(&step.action)?;
            let at = self.script.len();
            self.script.push(step.clone());
            let due = tenure_replica::Moment::after_start(step.at);
            self.agenda.at(due, StageEvent::Inject(at));
        }
        Ok(())
    }

    /// Whether the targets exist and textbook algorithms can have this fault.
    fn check(&self, action: &Action) -> Result<(), String> {
        let known = |target: &Target| match target {
            Target::Named(name) if !self.names.contains(name) => Err(format!(
                "there is no process {name}; the processes are {}",
                self.names.join(", ")
            )),
            _ => Ok(()),
        };
        // The storage does not fail, but its links can be cut.
        let linked = |target: &Target| match target {
            Target::Named(name) if name == STORAGE => Ok(()),
            target => known(target),
        };
        match action {
            Action::Crash(target)
            | Action::Restart(target)
            | Action::Pause(target)
            | Action::Slow(target, _)
            | Action::Isolate(target)
            | Action::ClockJumps(target, _)
            | Action::ClockDrifts(target, _) => known(target),
            Action::Cut(a, b)
            | Action::CutOneWay(a, b)
            | Action::Flap(a, b)
            | Action::LoseOn(a, b, _)
            | Action::DuplicateOn(a, b, _)
            | Action::ReorderOn(a, b, _)
            | Action::DelayOn(a, b, _) => {
                linked(a)?;
                linked(b)
            }
            Action::Split(groups) => {
                groups.iter().flatten().try_for_each(|name| linked(&Target::Named(name.clone())))
            }
            Action::Lose(_)
            | Action::Duplicate(_)
            | Action::Reorder(_)
            | Action::Delay(..)
            | Action::Heal => Ok(()),
            Action::DiskSlows(_)
            | Action::DiskSlowsBy(..)
            | Action::DiskStalls(_)
            | Action::DiskFills(_)
            | Action::DiskFails(_)
            | Action::DiskRots(_)
            | Action::DiskMisplaces(_)
            | Action::PowerFails(_)
            | Action::SnapshotsFail
            | Action::Reset(..)
            | Action::ResetOneWay(..)
            | Action::HandOver => {
                Err(format!("`{action}` works in scenarios of the shipped replica only"))
            }
        }
    }

    pub(super) fn inject_step(&mut self, at: usize) {
        let step = self.script[at].clone();
        self.inject(&step.action, step.lasts).expect("it was checked when the script was read");
    }

    /// Injects a fault now.
    pub fn inject(&mut self, action: &Action, lasts: Option<Duration>) -> Result<(), String> {
        self.check(action)?;
        self.counts.fault(kind(action));
        self.trace_event(|| {
            let lasting =
                lasts.map_or(String::new(), |lasts| format!(" for {}", write_span(lasts)));
            TraceEvent::new("fault", format!("** {action}{lasting}"))
                .with("action", action.to_string())
                .with("lasts", lasts.map(|lasts| lasts.as_micros() as u64))
        });
        match action {
            Action::Crash(target) => {
                for process in self.targets(target) {
                    self.crash(process);
                    if let Some(lasts) = lasts {
                        self.agenda.after(lasts, StageEvent::Start(process));
                    }
                }
            }
            Action::Restart(target) => {
                self.targets(target).into_iter().for_each(|process| self.start(process))
            }
            Action::Pause(target) => {
                for process in self.targets(target) {
                    self.pause(process, lasts);
                }
            }
            Action::Slow(target, by) => {
                for process in self.targets(target) {
                    self.slot_mut(process).slow = *by;
                    self.undo_after(lasts, StageUndo::Fast(process));
                }
            }
            Action::Cut(a, b) => {
                let links = between(&self.targets(a), &self.targets(b), true);
                self.cut(links, lasts);
            }
            Action::CutOneWay(a, b) => {
                let links = between(&self.targets(a), &self.targets(b), false);
                self.cut(links, lasts);
            }
            Action::Isolate(target) => {
                for process in self.targets(target) {
                    let others: Vec<ProcessId> =
                        self.processes().filter(|o| *o != process).collect();
                    let links = between(&[process], &others, true);
                    self.cut(links, lasts);
                }
            }
            Action::Split(groups) => {
                let groups: Vec<Vec<ProcessId>> = groups
                    .iter()
                    .map(|group| group.iter().filter_map(|name| self.number(name)).collect())
                    .collect();
                self.cut(across(&groups), lasts);
            }
            Action::Flap(a, b) => {
                for ends in between(&self.targets(a), &self.targets(b), false) {
                    let left = lasts.unwrap_or(Duration::from_secs(3600));
                    self.undo(StageUndo::Flap(Flapping { ends, cuts: true, every: FLAP, left }));
                }
            }
            Action::Lose(_) | Action::Duplicate(_) | Action::Reorder(_) | Action::Delay(..) => {
                if let Some(clears) = worsen(&mut self.links.conditions, action) {
                    self.undo_after(lasts, StageUndo::ClearNetwork(clears));
                }
            }
            Action::LoseOn(a, b, _)
            | Action::DuplicateOn(a, b, _)
            | Action::ReorderOn(a, b, _)
            | Action::DelayOn(a, b, _) => {
                let links = between(&self.targets(a), &self.targets(b), false);
                if let Some(clears) = worsen_links(&mut self.links, &links, action) {
                    self.undo_after(lasts, StageUndo::ClearLinks(links, clears));
                }
            }
            Action::ClockJumps(target, by_us) => {
                for process in self.targets(target) {
                    self.slot_mut(process).clock.jump(*by_us);
                }
            }
            Action::ClockDrifts(target, ppm) => {
                let now = self.now();
                for process in self.targets(target) {
                    self.slot_mut(process).clock.drift(now, *ppm);
                }
            }
            Action::Heal => self.heal(),
            _ => unreachable!("it was checked"),
        }
        Ok(())
    }

    fn heal(&mut self) {
        self.links.mend_all();
        self.links.clear_conditions();
        for process in self.processes() {
            self.slot_mut(process).slow = Duration::ZERO;
            if self.slot_mut(process).pauses > 0 {
                self.slot_mut(process).pauses = 1;
                let life = self.slot_mut(process).life;
                self.resume(process, life);
            }
            self.start(process);
        }
    }

    fn targets(&self, target: &Target) -> Vec<ProcessId> {
        match target {
            Target::Named(name) => self.number(name).into_iter().collect(),
            Target::Leader => self.leaders(),
            Target::All => (0..self.contenders() as ProcessId).collect(),
        }
    }

    fn number(&self, name: &str) -> Option<ProcessId> {
        if name == STORAGE {
            return Some(self.storage_id());
        }
        self.names.iter().position(|known| known == name).map(|at| at as ProcessId)
    }

    fn cut(&mut self, links: Vec<(ProcessId, ProcessId)>, lasts: Option<Duration>) {
        links.iter().for_each(|(from, to)| self.links.cut(*from, *to));
        self.undo_after(lasts, StageUndo::Mend(links));
    }

    fn undo_after(&mut self, lasts: Option<Duration>, undo: StageUndo) {
        if let Some(lasts) = lasts {
            self.agenda.after(lasts, StageEvent::StageUndo(undo));
        }
    }

    pub(super) fn undo(&mut self, undo: StageUndo) {
        match undo {
            StageUndo::Mend(links) => {
                links.into_iter().for_each(|(from, to)| self.links.mend(from, to))
            }
            StageUndo::ClearNetwork(change) => change(&mut self.links.conditions),
            StageUndo::ClearLinks(links, end) => {
                links.into_iter().for_each(|(from, to)| end(self.links.own(from, to)));
            }
            StageUndo::Fast(process) => self.slot_mut(process).slow = Duration::ZERO,
            StageUndo::Flap(flapping) => {
                if let Some(next) = flapping.turn(&mut self.links) {
                    self.agenda.after(FLAP, StageEvent::StageUndo(StageUndo::Flap(next)));
                }
            }
        }
    }
}

/// The name of a fault in counts.
fn kind(action: &Action) -> &'static str {
    match action {
        Action::Crash(_) => "crash",
        Action::Restart(_) => "restart",
        Action::Pause(_) => "pause",
        Action::Slow(..) => "slow",
        Action::Cut(..) => "cut",
        Action::CutOneWay(..) => "cut_one_way",
        Action::Isolate(_) => "isolate",
        Action::Split(_) => "split",
        Action::Flap(..) => "flap",
        Action::Lose(_) => "lose",
        Action::Duplicate(_) => "duplicates",
        Action::Reorder(_) => "reorders",
        Action::Delay(..) => "delay",
        Action::LoseOn(..) => "link_lose",
        Action::DuplicateOn(..) => "link_duplicates",
        Action::ReorderOn(..) => "link_reorders",
        Action::DelayOn(..) => "link_delay",
        Action::ClockJumps(..) => "clock_jump",
        Action::ClockDrifts(..) => "clock_drift",
        _ => "heal",
    }
}
