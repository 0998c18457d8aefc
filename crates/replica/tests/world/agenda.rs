//! What will happen, and when. Time is the moment of the event that is being looked at.

use std::{collections::BTreeMap, time::Duration};

use tenure_replica::{Frozen, Input, Moment, RaftMessage};

use super::{faults::Undo, member::Number};

/// One thing that will happen.
#[derive(Debug)]
pub enum Happening {
    /// A member's loop runs, if this is still the call it waits for.
    Call { member: Number, life: u64, ticket: u64 },
    /// Something reaches a member's process.
    Arrive { to: Number, life: u64, input: Box<Input> },
    /// The disk has flushed what it was writing.
    Flushed { member: Number, life: u64 },
    /// A snapshot was written, or not.
    SnapshotWritten { member: Number, life: u64, frozen: Box<Frozen>, good: bool },
    /// A snapshot has gone over the wire.
    SnapshotCame { from: (Number, u64), to: (Number, u64), message: Box<RaftMessage> },
    /// A process starts.
    Start(Number),
    /// A process ends.
    Crash { member: Number, life: u64 },
    /// A paused process goes on.
    Resume { member: Number, life: u64 },
    /// Two members try to connect.
    Connect(Number, Number),
    /// A member hangs up on one that was removed.
    Dismiss(Number, Number),
    /// A client's turn.
    Client(usize),
    /// Chance picks a fault.
    Nemesis,
    /// A fault ends.
    Undo(Undo),
}

#[derive(Debug, Default)]
pub struct Agenda {
    now: Moment,
    counter: u64,
    due: BTreeMap<(Moment, u64), Happening>,
}

impl Agenda {
    pub fn now(&self) -> Moment {
        self.now
    }

    pub fn after(&mut self, delay: Duration, what: Happening) {
        self.at(self.now + delay, what);
    }

    /// What falls on the same moment happens in the order in which it was noted.
    pub fn at(&mut self, when: Moment, what: Happening) {
        self.counter += 1;
        self.due.insert((when.max(self.now), self.counter), what);
    }

    /// Goes to the next event, if it comes not after `until`.
    pub fn next(&mut self, until: Moment) -> Option<Happening> {
        let next = self.due.first_entry().filter(|next| next.key().0 <= until)?;
        self.now = next.key().0;
        Some(next.remove())
    }

    /// Nothing happens up to this moment any more.
    pub fn pass(&mut self, until: Moment) {
        self.now = self.now.max(until);
    }
}
