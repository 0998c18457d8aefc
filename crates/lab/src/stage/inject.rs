//! Faults on a stage.

use std::time::Duration;

use tenure_replica::Moment;

use super::{ProcessId, ProtocolMessage, STORAGE, Stage, slot::StageEvent};
use crate::{
    engine::{Links, RunCounts, SimClock, TraceEvent, ms},
    faults::{Action, FOREVER, FaultHost, FaultScript, ScriptStep, Target, Undo, write_span},
};

impl<M: ProtocolMessage> Stage<M> {
    /// Injects the faults of a script at their times.
    pub fn follow(&mut self, script: &FaultScript) -> Result<(), String> {
        for step in &script.steps {
            self.check(&step.action)?;
            self.agenda.at(Moment::after_start(step.at), StageEvent::Inject(step.clone()));
        }
        Ok(())
    }

    /// Whether the targets exist and textbook algorithms can have this fault.
    fn check(&self, action: &Action) -> Result<(), String> {
        if action.needs_cluster() {
            return Err(format!("`{action}` works in scenarios of the shipped replica only"));
        }
        let of_process = matches!(
            action,
            Action::Crash(_)
                | Action::Restart(_)
                | Action::Pause(_)
                | Action::Slow(..)
                | Action::Isolate(_)
                | Action::ClockJumps(..)
                | Action::ClockDrifts(..)
        );
        for target in action.targets() {
            let Target::Named(name) = target else { continue };
            // The storage does not fail, but its links can be cut.
            if !self.names.contains(&name) && (of_process || name != STORAGE) {
                let known = self.names.join(", ");
                return Err(format!("there is no process {name}; the processes are {known}"));
            }
        }
        Ok(())
    }

    /// Injects a fault now.
    pub fn inject_checked(
        &mut self,
        action: &Action,
        lasts: Option<Duration>,
    ) -> Result<(), String> {
        self.check(action)?;
        self.inject_step(&ScriptStep { at: Duration::ZERO, action: action.clone(), lasts });
        Ok(())
    }

    pub(super) fn inject_step(&mut self, step: &ScriptStep) {
        let ScriptStep { action, lasts, .. } = step;
        self.counts.fault();
        self.trace_event(|| {
            let lasting =
                lasts.map_or(String::new(), |lasts| format!(" for {}", write_span(lasts)));
            TraceEvent::new("fault", format!("** {action}{lasting}"))
                .with("action", action.to_string())
                .with("lasts", lasts.map(|lasts| lasts.as_micros() as u64))
        });
        self.inject(action, lasts.unwrap_or(FOREVER));
    }
}

impl<M: ProtocolMessage> FaultHost for Stage<M> {
    const FLAP: Duration = ms(150);

    fn now(&self) -> Moment {
        Stage::now(self)
    }

    fn named(&self, name: &str) -> Option<ProcessId> {
        if name == STORAGE {
            return Some(self.storage_id());
        }
        self.names.iter().position(|known| known == name).map(|at| at as ProcessId)
    }

    fn leaders(&self) -> Vec<ProcessId> {
        Stage::leaders(self)
    }

    fn all(&self) -> Vec<ProcessId> {
        (0..self.contenders() as ProcessId).collect()
    }

    fn everything(&self) -> Vec<ProcessId> {
        self.processes().collect()
    }

    fn is_up(&self, process: ProcessId) -> bool {
        self.slots[process as usize].up
    }

    fn links(&mut self) -> &mut Links {
        &mut self.links
    }

    fn counts(&mut self) -> &mut RunCounts {
        &mut self.counts
    }

    fn clock(&mut self, process: ProcessId) -> &mut SimClock {
        &mut self.slot_mut(process).clock
    }

    fn slowness(&mut self, process: ProcessId) -> &mut Duration {
        &mut self.slot_mut(process).slow
    }

    fn start(&mut self, process: ProcessId) {
        Stage::start(self, process);
    }

    fn crash(&mut self, process: ProcessId) {
        Stage::crash(self, process);
    }

    fn pause(&mut self, process: ProcessId, lasts: Duration) {
        Stage::pause(self, process, lasts);
    }

    fn mend_everything(&mut self) {
        self.links.mend_all();
        self.links.clear_conditions();
        for process in self.processes() {
            self.slot_mut(process).slow = Duration::ZERO;
            if self.slot_mut(process).pauses > 0 {
                self.slot_mut(process).pauses = 1;
                let life = self.slot_mut(process).life;
                self.resume(process, life);
            }
            Stage::start(self, process);
        }
    }

    fn undo_after(&mut self, lasts: Duration, undo: Undo) {
        self.agenda.after(lasts, StageEvent::Undo(undo));
    }

    fn inject_in_cluster(&mut self, action: &Action, _: Duration) {
        unreachable!("a stage has refused `{action}`");
    }

    fn undo_in_cluster(&mut self, undo: Undo) {
        unreachable!("a stage has no {undo:?}");
    }
}
