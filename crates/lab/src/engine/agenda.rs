//! The events to come, by time. The present is the moment of the event that is being handled.

use std::{cmp::Ordering, collections::BinaryHeap, time::Duration};

use tenure_replica::Moment;

/// The events to come, in order.
#[derive(Debug)]
pub struct Agenda<E> {
    now: Moment,
    counter: u64,
    due: BinaryHeap<Due<E>>,
}

/// One event to come. Ordered by moment, then by when it was added; the earliest is the greatest,
/// because a heap pops the greatest.
#[derive(Debug)]
struct Due<E> {
    when: Moment,
    number: u64,
    what: E,
}

impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Due<E>) -> Ordering {
        (other.when, other.number).cmp(&(self.when, self.number))
    }
}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Due<E>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Due<E>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Due<E> {}

impl<E> Default for Agenda<E> {
    fn default() -> Agenda<E> {
        Agenda::beginning_at(Moment::ZERO)
    }
}

impl<E> Agenda<E> {
    pub fn beginning_at(now: Moment) -> Agenda<E> {
        Agenda { now, counter: 0, due: BinaryHeap::new() }
    }

    pub fn now(&self) -> Moment {
        self.now
    }

    pub fn after(&mut self, delay: Duration, what: E) {
        self.at(self.now + delay, what);
    }

    /// Events at the same moment happen in the order in which they were added.
    pub fn at(&mut self, when: Moment, what: E) {
        self.counter += 1;
        self.due.push(Due { when: when.max(self.now), number: self.counter, what });
    }

    /// Takes the next event, if it is not after `until`.
    pub fn next(&mut self, until: Moment) -> Option<E> {
        if self.due.peek()?.when > until {
            return None;
        }
        let due = self.due.pop()?;
        self.now = due.when;
        Some(due.what)
    }

    /// Moves the present to `until`, when no event is left before it.
    pub fn pass(&mut self, until: Moment) {
        self.now = self.now.max(until);
    }
}
