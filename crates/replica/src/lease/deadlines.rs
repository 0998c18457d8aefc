//! One member's own reckoning of when each lease runs out.
//!
//! Deadlines are kept on a *lease clock* that stands still while nobody could renew: it is the
//! house's clock minus all the time that was lost to a missing raft leader or to this process not
//! running. Holding the clock back prolongs every lease at once, in constant time, and never cuts one
//! short.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenure_api::LeaseId;

use crate::moment::Moment;

/// When each lease runs out, as this member sees it.
///
/// Or anything else that runs out on the raft leader's clock.
#[derive(Clone, Debug)]
pub struct Deadlines<K = LeaseId> {
    /// By how much the lease clock lags behind the house's.
    held_back: Duration,
    by_lease: BTreeMap<K, Deadline>,
    /// When to look at a lease next. A renewal leaves the old entry standing; when it comes up the
    /// truth is consulted and, if the lease lives on, the entry is filed again. Renewing so costs one
    /// map update, however many leases there are.
    to_check: BTreeSet<(Moment, K)>,
}

impl<K> Default for Deadlines<K> {
    fn default() -> Deadlines<K> {
        let (by_lease, to_check) = (BTreeMap::new(), BTreeSet::new());
        Deadlines { held_back: Duration::ZERO, by_lease, to_check }
    }
}

/// On the lease clock.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Moment,
    /// Where it stands in `to_check`; nowhere while it is handed out as due.
    filed: Option<Moment>,
}

impl<K: Clone + Ord> Deadlines<K> {
    /// A lease gave a sign of life: it has its whole TTL from now.
    pub fn restart(&mut self, lease: K, ttl: Duration, now: Moment) {
        let at = self.lease_clock(now) + ttl;
        match self.by_lease.get_mut(&lease) {
            Some(deadline) => {
                deadline.at = at;
                // The lease clock may have been held back since by more than has passed: it would be looked
                // at too late.
                if let Some(filed) = deadline.filed.filter(|filed| *filed > at) {
                    deadline.filed = Some(at);
                    self.to_check.remove(&(filed, lease.clone()));
                    self.to_check.insert((at, lease));
                }
            }
            None => {
                self.by_lease.insert(lease.clone(), Deadline { at, filed: Some(at) });
                self.to_check.insert((at, lease));
            }
        }
    }

    /// A lease is gone. Nothing of it stays behind: members that do not lead never look at what is
    /// due, and would collect what is left of every lease there ever was.
    pub fn forget(&mut self, lease: &K) {
        if let Some(filed) = self.by_lease.remove(lease).and_then(|deadline| deadline.filed) {
            self.to_check.remove(&(filed, lease.clone()));
        }
    }

    /// Nobody could renew for so long: every lease lives that much longer.
    pub fn hold_back(&mut self, lost: Duration) {
        self.held_back += lost;
    }

    /// Takes up to `limit` leases that have run out. They stay out of sight until [`Self::put_back`].
    pub fn take_due(&mut self, now: Moment, limit: usize) -> Vec<K> {
        let clock = self.lease_clock(now);
        let mut due = Vec::new();
        while due.len() < limit {
            let Some((at, lease)) = self.to_check.first().cloned().filter(|(at, _)| *at <= clock)
            else {
                break;
            };
            self.to_check.remove(&(at, lease.clone()));
            let Some(deadline) = self.by_lease.get_mut(&lease) else { continue };
            if deadline.at <= clock {
                deadline.filed = None;
                due.push(lease);
            } else {
                deadline.filed = Some(deadline.at);
                self.to_check.insert((deadline.at, lease));
            }
        }
        due
    }

    /// A lease that was taken as due lives after all (its expiry was refused, or this member no
    /// longer leads): look at it again when its deadline comes, or at `not_before`.
    pub fn put_back(&mut self, lease: K, not_before: Moment) {
        let not_before = self.lease_clock(not_before);
        let Some(deadline) = self.by_lease.get_mut(&lease) else { return };
        let at = deadline.at.max(not_before);
        if let Some(filed) = deadline.filed.replace(at) {
            self.to_check.remove(&(filed, lease.clone()));
        }
        self.to_check.insert((at, lease));
    }

    /// How long a lease has left; zero when it is due. None if there is no such lease.
    pub fn remaining(&self, lease: &K, now: Moment) -> Option<Duration> {
        let clock = self.lease_clock(now);
        self.by_lease.get(lease).map(|deadline| deadline.at.since(clock))
    }

    /// When, on the house's clock, [`Self::take_due`] should be asked next.
    pub fn next_check(&self) -> Option<Moment> {
        self.to_check.first().map(|(at, _)| *at + self.held_back)
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
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(5), at(0));
        deadlines.restart(A, Duration::from_secs(5), at(3000));
        assert_eq!(deadlines.take_due(at(5000), 10), []);
        assert_eq!(deadlines.take_due(at(8000), 10), [A]);
    }

    #[test]
    fn lost_time_prolongs_every_lease_by_exactly_that_time() {
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(5), at(1000));
        deadlines.restart(B, Duration::from_secs(5), at(2000));
        deadlines.hold_back(Duration::from_millis(700));
        assert_eq!(deadlines.take_due(at(6699), 10), []);
        assert_eq!(deadlines.take_due(at(6700), 10), [A]);
        assert_eq!(deadlines.next_check(), Some(at(7700)));
        assert_eq!(deadlines.remaining(&B, at(6700)), Some(Duration::from_secs(1)));
    }

    /// Ten seconds without a raft leader, and a renewal right after them.
    #[test]
    fn a_lease_renewed_after_much_time_was_lost_still_ends_on_time() {
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(5), at(20_000));
        deadlines.hold_back(Duration::from_secs(10));
        deadlines.restart(A, Duration::from_secs(5), at(21_000));
        assert_eq!(deadlines.take_due(at(25_999), 10), []);
        assert_eq!(deadlines.take_due(at(26_000), 10), [A]);
    }

    #[test]
    fn a_due_lease_is_handed_out_once_and_again_when_put_back() {
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(1), at(0));
        assert_eq!(deadlines.take_due(at(1000), 10), [A]);
        assert_eq!(deadlines.take_due(at(1000), 10), []);
        deadlines.put_back(A, at(1500));
        assert_eq!(deadlines.take_due(at(1400), 10), []);
        assert_eq!(deadlines.take_due(at(1500), 10), [A]);
    }

    #[test]
    fn a_lease_renewed_while_taken_must_be_put_back_to_be_seen() {
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(1), at(0));
        assert_eq!(deadlines.take_due(at(1000), 10), [A]);
        deadlines.restart(A, Duration::from_secs(1), at(1010));
        deadlines.put_back(A, at(1010));
        assert_eq!(deadlines.take_due(at(2010), 10), [A]);
    }

    #[test]
    fn the_limit_bounds_one_round_and_the_rest_follows() {
        let mut deadlines: Deadlines = Deadlines::default();
        for id in 1..=10 {
            deadlines.restart(LeaseId(id), Duration::from_secs(1), at(0));
        }
        assert_eq!(deadlines.take_due(at(1000), 7).len(), 7);
        assert_eq!(deadlines.take_due(at(1000), 7).len(), 3);
    }

    #[test]
    fn a_lease_that_is_gone_leaves_nothing_behind() {
        let mut deadlines: Deadlines = Deadlines::default();
        for id in 1..=1000 {
            deadlines.restart(LeaseId(id), Duration::from_secs(60), at(0));
            deadlines.restart(LeaseId(id), Duration::from_secs(60), at(10));
            deadlines.forget(&LeaseId(id));
        }
        assert!(deadlines.by_lease.is_empty() && deadlines.to_check.is_empty());
    }
}
