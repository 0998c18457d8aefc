//! From the start of a member until it is up to date.

use std::time::Duration;

use super::Replica;
use crate::{Moment, input::Notice, log::LogIndex};

/// How often a member says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Joining {
    /// Up to where the raft leader has committed the log, as far as it told.
    goal: LogIndex,
    caught_up: bool,
    /// Worth a word when it has caught up: it is new here, or it took long.
    notable: bool,
    told: Moment,
}

impl Joining {
    pub(super) fn new(now: Moment, is_new: bool) -> Joining {
        Joining { goal: 0, caught_up: false, notable: is_new, told: now }
    }

    pub(super) fn hear_of(&mut self, committed: LogIndex) {
        self.goal = self.goal.max(committed);
    }
}

impl Replica {
    pub(super) fn has_caught_up(&self) -> bool {
        self.joining.caught_up
    }

    /// Says how far this member is until it has everything that the raft leader had committed when
    /// last heard, and something of that raft leader's own term.
    pub(super) fn follow_catching_up(&mut self, now: Moment) {
        if self.joining.caught_up || self.raft.leader().is_none() {
            return;
        }
        let (applied, goal) = (self.applied.0, self.joining.goal);
        if self.applied.1 == self.raft.term() && applied >= goal {
            self.joining.caught_up = true;
            if self.joining.notable {
                self.notice(Notice::CaughtUp(applied));
            }
            return;
        }
        if now.since(self.joining.told) >= PROGRESS_INTERVAL {
            self.joining.told = now;
            self.joining.notable = true;
            self.notice(Notice::CatchingUp { applied, goal });
        }
    }
}
