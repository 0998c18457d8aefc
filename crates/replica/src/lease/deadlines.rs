//! One member's own reckoning of when each lease runs out.
//!
//! Deadlines are kept on a *lease clock* that stands still while nobody could renew: it is the
//! house's clock minus all the time that was lost to a missing raft leader or to this process not
//! running. Holding the clock back prolongs every lease at once, in constant time, and never cuts one
//! short.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

use tenure_api::LeaseId;

use crate::moment::Moment;

/// When each lease runs out, as this member sees it.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    /// By how much the lease clock lags behind the house's.
    held_back: Duration,
    /// The truth, on the lease clock.
    by_lease: BTreeMap<LeaseId, Moment>,
    /// When to look at a lease next. A renewal leaves the old entry standing; when it comes up the
    /// truth is consulted and, if the lease lives on, the entry is filed again. Renewing so costs one
    /// map update, however many leases there are.
    to_check: BinaryHeap<Reverse<(Moment, LeaseId)>>,
}

impl Deadlines {
    /// A lease gave a sign of life: it has its whole TTL from now.
    pub fn restart(&mut self, lease: LeaseId, ttl: Duration, now: Moment) {
        let deadline = self.lease_clock(now) + ttl;
        if self.by_lease.insert(lease, deadline).is_none() {
            self.to_check.push(Reverse((deadline, lease)));
        }
    }

    /// A lease is gone.
    pub fn forget(&mut self, lease: LeaseId) {
        self.by_lease.remove(&lease);
    }

    /// Nobody could renew for so long: every lease lives that much longer.
    pub fn hold_back(&mut self, lost: Duration) {
        self.held_back += lost;
    }

    /// Takes up to `limit` leases that have run out. They stay out of sight until [`Self::put_back`]
    /// or a renewal.
    pub fn take_due(&mut self, now: Moment, limit: usize) -> Vec<LeaseId> {
        let clock = self.lease_clock(now);
        let mut due = Vec::new();
        while due.len() < limit {
            match self.to_check.peek() {
                Some(Reverse((at, _))) if *at <= clock => {}
                _ => break,
            }
            let Some(Reverse((_, lease))) = self.to_check.pop() else { break };
            match self.by_lease.get(&lease) {
                None => {}
                Some(deadline) if *deadline <= clock => due.push(lease),
                Some(deadline) => self.to_check.push(Reverse((*deadline, lease))),
            }
        }
        due
    }

    /// A lease that was taken as due lives after all (its expiry was refused, or this member no
    /// longer leads): look at it again when its deadline comes, or at `not_before`.
    pub fn put_back(&mut self, lease: LeaseId, not_before: Moment) {
        if let Some(deadline) = self.by_lease.get(&lease) {
            let at = (*deadline).max(self.lease_clock(not_before));
            self.to_check.push(Reverse((at, lease)));
        }
    }

    /// How long a lease has left; zero when it is due. None if there is no such lease.
    pub fn remaining(&self, lease: LeaseId, now: Moment) -> Option<Duration> {
        let clock = self.lease_clock(now);
        self.by_lease.get(&lease).map(|deadline| deadline.since(clock))
    }

    /// When, on the house's clock, [`Self::take_due`] should be asked next.
    pub fn next_check(&self) -> Option<Moment> {
        self.to_check.peek().map(|Reverse((at, _))| *at + self.held_back)
    }

    fn lease_clock(&self, now: Moment) -> Moment {
        now - self.held_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::after_start(Duration::from_millis(millis))
    }

    const A: LeaseId = LeaseId(1);
    const B: LeaseId = LeaseId(2);

    #[test]
    fn a_renewed_lease_is_not_due_at_its_old_deadline() {
        let mut deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(5), at(0));
        deadlines.restart(A, Duration::from_secs(5), at(3000));
        assert_eq!(deadlines.take_due(at(5000), 10), []);
        assert_eq!(deadlines.take_due(at(8000), 10), [A]);
    }

    #[test]
    fn lost_time_prolongs_every_lease_by_exactly_that_time() {
        let mut deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(5), at(1000));
        deadlines.restart(B, Duration::from_secs(5), at(2000));
        deadlines.hold_back(Duration::from_millis(700));
        assert_eq!(deadlines.take_due(at(6699), 10), []);
        assert_eq!(deadlines.take_due(at(6700), 10), [A]);
        assert_eq!(deadlines.next_check(), Some(at(7700)));
        assert_eq!(deadlines.remaining(B, at(6700)), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_due_lease_is_handed_out_once_and_again_when_put_back() {
        let mut deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(1), at(0));
        assert_eq!(deadlines.take_due(at(1000), 10), [A]);
        assert_eq!(deadlines.take_due(at(1000), 10), []);
        deadlines.put_back(A, at(1500));
        assert_eq!(deadlines.take_due(at(1400), 10), []);
        assert_eq!(deadlines.take_due(at(1500), 10), [A]);
    }

    #[test]
    fn a_lease_renewed_while_taken_must_be_put_back_to_be_seen() {
        let mut deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(1), at(0));
        assert_eq!(deadlines.take_due(at(1000), 10), [A]);
        deadlines.restart(A, Duration::from_secs(1), at(1010));
        deadlines.put_back(A, at(1010));
        assert_eq!(deadlines.take_due(at(2010), 10), [A]);
    }

    #[test]
    fn the_limit_bounds_one_round_and_the_rest_follows() {
        let mut deadlines = Deadlines::default();
        for id in 1..=10 {
            deadlines.restart(LeaseId(id), Duration::from_secs(1), at(0));
        }
        assert_eq!(deadlines.take_due(at(1000), 7).len(), 7);
        assert_eq!(deadlines.take_due(at(1000), 7).len(), 3);
    }
}
