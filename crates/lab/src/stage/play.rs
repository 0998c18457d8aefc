//! A run of any algorithm, whatever its processes say to each other.

use std::time::Duration;

use tenure_replica::Moment;

use super::{Ledger, NodeId, Promise, Stage, Verdict, View, Word};
use crate::{
    engine::{Counts, Trace},
    faults::{Action, Script},
};

/// A stage, seen from the seats.
pub trait Play {
    fn now(&self) -> Moment;

    /// Those who may lead come first.
    fn names(&self) -> Vec<String>;

    fn contenders(&self) -> usize;

    fn trace(&mut self, trace: Trace);

    fn checksum(&self) -> u64;

    /// These blows fall when their time comes.
    ///
    /// # Errors
    /// If a line names somebody unknown, or something that there is no means for here.
    fn follow(&mut self, script: &Script) -> Result<(), String>;

    /// A blow falls now.
    ///
    /// # Errors
    /// As for [`Play::follow`].
    fn strike(&mut self, action: &Action, lasts: Option<Duration>) -> Result<(), String>;

    fn run(&mut self, duration: Duration);

    /// Lets time pass until somebody leads; false if that takes too long.
    fn run_until_led(&mut self, limit: Duration) -> bool;

    /// Lets time pass until all contenders that run take the same one for the leader.
    fn run_until_known(&mut self, limit: Duration) -> bool;

    /// Who acts as a leader.
    fn leaders(&self) -> Vec<NodeId>;

    fn view(&self, of: NodeId) -> View;

    /// Counts anew from now on.
    fn mark(&mut self);

    fn ledger(&self) -> &Ledger;

    fn counts(&self) -> &Counts;

    /// Whether promises were kept so far.
    fn verdicts(&self, promises: &[Promise]) -> Vec<Verdict>;
}

impl<M: Word> Play for Stage<M> {
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

    fn follow(&mut self, script: &Script) -> Result<(), String> {
        Stage::follow(self, script)
    }

    fn strike(&mut self, action: &Action, lasts: Option<Duration>) -> Result<(), String> {
        Stage::strike(self, action, lasts)
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

    fn leaders(&self) -> Vec<NodeId> {
        Stage::leaders(self)
    }

    fn view(&self, of: NodeId) -> View {
        Stage::view(self, of)
    }

    fn mark(&mut self) {
        Stage::mark(self);
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn verdicts(&self, promises: &[Promise]) -> Vec<Verdict> {
        Stage::verdicts(self, promises)
    }
}
