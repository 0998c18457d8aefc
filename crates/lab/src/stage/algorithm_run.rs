//! A run of an algorithm, whatever its message type is.

use std::time::Duration;

use tenure_replica::Moment;

use super::{Ledger, ProcessId, ProcessView, Promise, ProtocolMessage, Stage, Verdict};
use crate::{
    engine::{RunCounts, Trace},
    faults::{Action, FaultScript},
};

/// A [`Stage`] without its message type.
pub trait AlgorithmRun {
    fn now(&self) -> Moment;

    /// The names of all processes, contenders first.
    fn names(&self) -> Vec<String>;

    fn contenders(&self) -> usize;

    fn trace(&mut self, trace: Trace);

    fn checksum(&self) -> u64;

    /// Injects the faults of a script at their times.
    ///
    /// # Errors
    /// If a step names an unknown process, or a fault that textbook algorithms do not have.
    fn follow(&mut self, script: &FaultScript) -> Result<(), String>;

    /// Injects a fault now.
    ///
    /// # Errors
    /// As for [`AlgorithmRun::follow`].
    fn inject(&mut self, action: &Action, lasts: Option<Duration>) -> Result<(), String>;

    fn run(&mut self, duration: Duration);

    /// Lets time pass until there is a leader; false if that takes longer than `limit`.
    fn run_until_led(&mut self, limit: Duration) -> bool;

    /// Lets time pass until all running contenders know the same leader.
    fn run_until_known(&mut self, limit: Duration) -> bool;

    /// The processes that act as leaders.
    fn leaders(&self) -> Vec<ProcessId>;

    fn view(&self, of: ProcessId) -> ProcessView;

    /// Starts a new measurement.
    fn mark(&mut self);

    fn ledger(&self) -> &Ledger;

    fn counts(&self) -> &RunCounts;

    /// Whether each promise has held so far.
    fn verdicts(&self, promises: &[Promise]) -> Vec<Verdict>;
}

impl<M: ProtocolMessage> AlgorithmRun for Stage<M> {
    fn now(&self) -> Moment {
        Stage::now(self)
    }

    fn names(&self) -> Vec<String> {
        Stage::names(self).to_vec()
    }

    fn contenders(&self) -> usize {
        Stage::contenders(self)
    }

    fn trace(&mut self, trace: Trace) {
        self.trace = trace;
    }

    fn checksum(&self) -> u64 {
        self.trace.checksum
    }

    fn follow(&mut self, script: &FaultScript) -> Result<(), String> {
        Stage::follow(self, script)
    }

    fn inject(&mut self, action: &Action, lasts: Option<Duration>) -> Result<(), String> {
        self.inject_checked(action, lasts)
    }

    fn run(&mut self, duration: Duration) {
        Stage::run(self, duration);
    }

    fn run_until_led(&mut self, limit: Duration) -> bool {
        self.run_until(limit, |stage| !stage.leaders().is_empty())
    }

    fn run_until_known(&mut self, limit: Duration) -> bool {
        self.run_until(limit, Stage::is_known)
    }

    fn leaders(&self) -> Vec<ProcessId> {
        Stage::leaders(self)
    }

    fn view(&self, of: ProcessId) -> ProcessView {
        Stage::view(self, of)
    }

    fn mark(&mut self) {
        Stage::mark(self);
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn counts(&self) -> &RunCounts {
        &self.counts
    }

    fn verdicts(&self, promises: &[Promise]) -> Vec<Verdict> {
        Stage::verdicts(self, promises)
    }
}
