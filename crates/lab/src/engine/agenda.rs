//! What will happen, and when. Time is the moment of the event that is being looked at.

use std::{collections::BTreeMap, time::Duration};

use tenure_replica::Moment;

/// Everything that is to come, in order.
#[derive(Debug)]
pub struct Agenda<E> {
    now: Moment,
    counter: u64,
    due: BTreeMap<(Moment, u64), E>,
}

impl<E> Default for Agenda<E> {
    fn default() -> Agenda<E> {
        Agenda { now: Moment::ZERO, counter: 0, due: BTreeMap::new() }
    }
}

impl<E> Agenda<E> {
    pub fn now(&self) -> Moment {
        self.now
    }

    pub fn after(&mut self, delay: Duration, what: E) {
        self.at(self.now + delay, what);
    }

    /// What falls on the same moment happens in the order in which it was noted.
    pub fn at(&mut self, when: Moment, what: E) {
        self.counter += 1;
        self.due.insert((when.max(self.now), self.counter), what);
    }

    /// Goes to the next event, if it comes not after `until`.
    pub fn next(&mut self, until: Moment) -> Option<E> {
        let next = self.due.first_entry().filter(|next| next.key().0 <= until)?;
        self.now = next.key().0;
        Some(next.remove())
    }

    /// Nothing happens up to this moment any more.
    pub fn pass(&mut self, until: Moment) {
        self.now = self.now.max(until);
    }
}
