//! How much history is kept, and the raft leader's compactions that see to it.

use std::{collections::VecDeque, time::Duration};

use tenure_api::Revision;

use super::Replica;
use crate::{Moment, command::Command};

/// What is kept of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Everything, until a client compacts.
    All,
    /// What is younger than this.
    Period(Duration),
    /// So many revisions.
    Revisions(i64),
}

/// A period is looked at in so many steps.
const STEPS: u32 = 10;
/// Not oftener than this.
const STEP_MIN: Duration = Duration::from_secs(1);
/// How often revisions are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(60);

/// Where the store was at which time, while this member has led.
#[derive(Debug, Default)]
pub(super) struct Samples {
    taken: VecDeque<(Moment, Revision)>,
}

impl Samples {
    /// The newest revision that is at least so old; what is older still is forgotten.
    fn older_than(&mut self, age: Duration, now: Moment) -> Option<Revision> {
        let mut found = None;
        while let Some((_, revision)) = self.taken.front().filter(|(at, _)| now.since(*at) >= age) {
            found = Some(*revision);
            self.taken.pop_front();
        }
        found
    }
}

impl Replica {
    /// A raft leader knows no times before its own; after a change of leaders history so lives up to
    /// one period longer, never shorter.
    pub(super) fn compact_if_due(&mut self, now: Moment) {
        let step = match self.config.retention {
            Retention::All => return,
            Retention::Period(period) => (period / STEPS).max(STEP_MIN),
            Retention::Revisions(_) => COUNT_INTERVAL,
        };
        // Until an entry of its own term is applied, what it has may be older than what there is: a count would come out too low, and
        // the next one comes much later.
        if !self.is_leader() || self.applied.1 != self.raft.term() {
            self.retention.taken.clear();
            return;
        }
        let last = self.retention.taken.back().map(|(at, _)| *at);
        if last.is_some_and(|at| now.since(at) < step) {
            return;
        }
        let revision = self.state.store.revision();
        self.retention.taken.push_back((now, revision));
        let goal = match self.config.retention {
            Retention::Period(period) => self.retention.older_than(period, now),
            Retention::Revisions(kept) => {
                self.retention.taken.drain(..self.retention.taken.len() - 1);
                Some(Revision(revision.0 - kept))
            }
            Retention::All => None,
        };
        if let Some(goal) = goal.filter(|goal| *goal > self.state.store.compacted()) {
            let _ = self.propose_own(now, &Command::Compact(goal));
        }
    }
}
