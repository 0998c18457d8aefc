//! One member's own reckoning of when each lease runs out.
//!
//! Deadlines are kept on a *lease clock* that stands still while no lease could be renewed: it is the
//! host's clock minus all the time that was lost to a missing raft leader or to this process not
//! running. Holding the clock back prolongs every lease at once, in constant time, and never cuts one
//! short.
//!
//! A member that applies old entries late, after a restart, gives every lease its whole TTL from then on. That is safe, but
//! if it leads next, a dead lease would live for up to twice its TTL. The entries tell more: each carries the lease clock
//! of the raft leader that proposed it. Within one term that is one clock, so a lease is at least as old as the time between
//! the entry that renewed it and the last one that was applied ([`Deadlines::account_for_age`]).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tenure_api::{LeaseId, Term};

use crate::{Moment, command::EntryClock};

/// Where the lease clock starts. It may be held back by more than has passed, and leases may be older than this process.
const CLOCK_START: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// So many times by how much the lease clock was held back are remembered.
const HOLDS_MAX: usize = 64;

/// When an entry was proposed, on its raft leader's lease clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewalStamp {
    /// Which raft leader.
    pub term: Term,
    /// What its clock said.
    pub ms: u64,
}

impl RenewalStamp {
    /// None if the entry does not tell how much time was lost.
    pub(crate) fn of(term: Term, clock: EntryClock) -> Option<RenewalStamp> {
        let lost_ms = clock.lost_ms?;
        Some(RenewalStamp { term, ms: clock.ms.saturating_sub(lost_ms) })
    }
}

/// The stamps of the newest term of which entries were applied.
#[derive(Clone, Copy, Debug)]
struct Stamps {
    first: RenewalStamp,
    last: RenewalStamp,
    /// When the last one was applied.
    applied: Moment,
}

/// When each lease runs out, as this member sees it.
///
/// Or anything else that runs out on the raft leader's clock.
#[derive(Clone, Debug)]
pub struct Deadlines<K = LeaseId> {
    /// By how much the lease clock lags behind the host's.
    held_back: Duration,
    by_lease: BTreeMap<K, Deadline>,
    /// When to look at a lease next. A renewal leaves the old entry standing; when it comes up the
    /// truth is consulted and, if the lease lives on, the entry is filed again. Renewing so costs one
    /// map update, however many leases there are.
    to_check: BTreeSet<(Moment, K)>,
    stamps: Option<Stamps>,
    /// When the lease clock was held back, and by how much until then.
    holds: VecDeque<(Moment, Duration)>,
}

impl<K> Default for Deadlines<K> {
    fn default() -> Deadlines<K> {
        let (by_lease, to_check) = (BTreeMap::new(), BTreeSet::new());
        let (stamps, holds) = (None, VecDeque::new());
        Deadlines { held_back: Duration::ZERO, by_lease, to_check, stamps, holds }
    }
}

/// On the lease clock.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Moment,
    /// Where it stands in `to_check`; nowhere while it is handed out as due.
    filed: Option<Moment>,
    /// Of the entry that gave it its whole TTL; none if that is not known.
    stamp: Option<RenewalStamp>,
}

impl<K: Clone + Ord> Deadlines<K> {
    /// A lease gave a sign of life, in an entry with this stamp: it has its whole TTL from now.
    pub fn restart(&mut self, lease: K, ttl: Duration, now: Moment, stamp: Option<RenewalStamp>) {
        let at = self.lease_clock(now) + ttl;
        match self.by_lease.get_mut(&lease) {
            Some(deadline) => {
                deadline.at = at;
                deadline.stamp = stamp;
                // The lease clock may have been held back since by more than has passed: it would be looked
                // at too late.
                self.file_no_later(lease, at);
            }
            None => {
                self.by_lease.insert(lease.clone(), Deadline { at, filed: Some(at), stamp });
                self.to_check.insert((at, lease));
            }
        }
    }

    fn file_no_later(&mut self, lease: K, at: Moment) {
        let Some(deadline) = self.by_lease.get_mut(&lease) else { return };
        if let Some(filed) = deadline.filed.filter(|filed| *filed > at) {
            deadline.filed = Some(at);
            self.to_check.remove(&(filed, lease.clone()));
            self.to_check.insert((at, lease));
        }
    }

    /// An entry with this stamp was applied. Without a stamp nothing that came before can be told apart.
    pub fn applied(&mut self, now: Moment, stamp: Option<RenewalStamp>) {
        self.stamps = stamp.map(|last| {
            let same_term = self.stamps.filter(|known| known.last.term == last.term);
            let first = same_term.map_or(last, |known| known.first);
            Stamps { first, last, applied: now }
        });
    }

    /// Leases that are known to be older than this member saw them run out when they are due.
    pub fn account_for_age(&mut self, ttl_of: impl Fn(&K) -> Option<Duration>) {
        let Some(stamps) = self.stamps else { return };
        let mut older = vec![];
        for (lease, deadline) in &self.by_lease {
            let Some(ttl) = ttl_of(lease) else { continue };
            // One of an earlier term was renewed before the first entry of this one.
            let same_term = deadline.stamp.filter(|stamp| stamp.term == stamps.last.term);
            let renewed = same_term.unwrap_or(stamps.first);
            let age = Duration::from_millis(stamps.last.ms.saturating_sub(renewed.ms));
            let held_back = self.held_back_at(stamps.applied - age);
            let at = stamps.applied + CLOCK_START + ttl - age - held_back;
            if at < deadline.at {
                older.push((lease.clone(), at));
            }
        }
        for (lease, at) in older {
            if let Some(deadline) = self.by_lease.get_mut(&lease) {
                deadline.at = at;
            }
            self.file_no_later(lease, at);
        }
    }

    /// By how much the lease clock has been held back so far.
    pub fn held_back(&self) -> Duration {
        self.held_back
    }

    /// By how much the lease clock lagged behind then; by less if that is too long ago.
    fn held_back_at(&self, then: Moment) -> Duration {
        let later = self.holds.iter().find(|(at, _)| *at > then);
        later.map_or(self.held_back, |(_, before)| *before)
    }

    /// A lease is gone. Nothing of it stays behind: members that do not lead never look at what is
    /// due, and would collect what is left of every lease there ever was.
    pub fn forget(&mut self, lease: &K) {
        if let Some(filed) = self.by_lease.remove(lease).and_then(|deadline| deadline.filed) {
            self.to_check.remove(&(filed, lease.clone()));
        }
    }

    /// No lease could be renewed for so long: every lease lives that much longer.
    pub fn hold_back(&mut self, now: Moment, lost: Duration) {
        self.holds.push_back((now, self.held_back));
        if self.holds.len() > HOLDS_MAX {
            self.holds.pop_front();
        }
        self.held_back += lost;
    }

    /// Whether a lease has run out.
    pub fn has_due(&mut self, now: Moment) -> bool {
        let clock = self.lease_clock(now);
        self.file_renewed(clock);
        self.to_check.first().is_some_and(|(at, _)| *at <= clock)
    }

    /// Files leases again whose old deadline has come though they were renewed, until the first is one that is due.
    fn file_renewed(&mut self, clock: Moment) {
        while let Some((at, lease)) = self.to_check.pop_first() {
            let Some(deadline) = self.by_lease.get_mut(&lease) else { continue };
            if at > clock || deadline.at <= at {
                self.to_check.insert((at, lease));
                return;
            }
            deadline.filed = Some(deadline.at);
            self.to_check.insert((deadline.at, lease));
        }
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

    /// When, on the host's clock, [`Self::take_due`] should be asked next.
    pub fn next_check(&self) -> Option<Moment> {
        self.to_check.first().map(|(at, _)| *at + self.held_back - CLOCK_START)
    }

    fn lease_clock(&self, now: Moment) -> Moment {
        now + CLOCK_START - self.held_back
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
    fn deadline_moves_when_a_lease_is_renewed() {
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(5), at(0), None);
        deadlines.restart(A, Duration::from_secs(5), at(3000), None);
        assert_eq!(deadlines.take_due(at(5000), 10), []);
        assert_eq!(deadlines.take_due(at(8000), 10), [A]);
    }

    #[test]
    fn deadlines_get_back_exactly_the_lost_time() {
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(5), at(1000), None);
        deadlines.restart(B, Duration::from_secs(5), at(2000), None);
        deadlines.hold_back(at(6000), Duration::from_millis(700));
        assert_eq!(deadlines.take_due(at(6699), 10), []);
        assert_eq!(deadlines.take_due(at(6700), 10), [A]);
        assert_eq!(deadlines.next_check(), Some(at(7700)));
        assert_eq!(deadlines.remaining(&B, at(6700)), Some(Duration::from_secs(1)));
    }

    /// Ten seconds without a raft leader, and a renewal right after them.
    #[test]
    fn deadline_of_a_renewal_does_not_count_earlier_lost_time() {
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(5), at(20_000), None);
        deadlines.hold_back(at(6000), Duration::from_secs(10));
        deadlines.restart(A, Duration::from_secs(5), at(21_000), None);
        assert_eq!(deadlines.take_due(at(25_999), 10), []);
        assert_eq!(deadlines.take_due(at(26_000), 10), [A]);
    }

    #[test]
    fn deadline_is_due_once_and_again_when_put_back() {
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(1), at(0), None);
        assert_eq!(deadlines.take_due(at(1000), 10), [A]);
        assert_eq!(deadlines.take_due(at(1000), 10), []);
        deadlines.put_back(A, at(1500));
        assert_eq!(deadlines.take_due(at(1400), 10), []);
        assert_eq!(deadlines.take_due(at(1500), 10), [A]);
    }

    #[test]
    fn deadline_renewed_while_taken_is_due_only_when_put_back() {
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.restart(A, Duration::from_secs(1), at(0), None);
        assert_eq!(deadlines.take_due(at(1000), 10), [A]);
        deadlines.restart(A, Duration::from_secs(1), at(1010), None);
        deadlines.put_back(A, at(1010));
        assert_eq!(deadlines.take_due(at(2010), 10), [A]);
    }

    #[test]
    fn deadlines_beyond_the_limit_are_due_in_the_next_round() {
        let mut deadlines: Deadlines = Deadlines::default();
        for id in 1..=10 {
            deadlines.restart(LeaseId(id), Duration::from_secs(1), at(0), None);
        }
        assert_eq!(deadlines.take_due(at(1000), 7).len(), 7);
        assert_eq!(deadlines.take_due(at(1000), 7).len(), 3);
    }

    #[test]
    fn deadlines_forget_a_lease_that_is_gone() {
        let mut deadlines: Deadlines = Deadlines::default();
        for id in 1..=1000 {
            deadlines.restart(LeaseId(id), Duration::from_secs(60), at(0), None);
            deadlines.restart(LeaseId(id), Duration::from_secs(60), at(10), None);
            deadlines.forget(&LeaseId(id));
        }
        assert!(deadlines.by_lease.is_empty() && deadlines.to_check.is_empty());
    }

    fn stamp(term: u64, ms: u64) -> Option<RenewalStamp> {
        Some(RenewalStamp { term: Term(term), ms })
    }

    const TTL: Duration = Duration::from_secs(5);

    #[test]
    fn lease_age_follows_the_entries_after_its_renewal() {
        let mut deadlines: Deadlines = Deadlines::default();
        // Replayed in one go.
        deadlines.restart(A, TTL, at(100), stamp(2, 70_000));
        deadlines.applied(at(100), stamp(2, 70_000));
        deadlines.applied(at(100), stamp(2, 73_000));
        assert_eq!(deadlines.remaining(&A, at(100)), Some(TTL));
        deadlines.account_for_age(|_| Some(TTL));
        assert_eq!(deadlines.remaining(&A, at(100)), Some(Duration::from_secs(2)));
        assert_eq!(deadlines.take_due(at(2099), 10), []);
        assert_eq!(deadlines.take_due(at(2100), 10), [A]);
    }

    #[test]
    fn lease_age_of_an_earlier_term_is_that_of_the_newest_term() {
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.restart(A, TTL, at(100), stamp(2, 999_000));
        deadlines.restart(B, TTL, at(100), None);
        deadlines.applied(at(100), stamp(2, 999_000));
        deadlines.applied(at(100), stamp(3, 50_000));
        deadlines.applied(at(100), stamp(3, 51_500));
        deadlines.account_for_age(|_| Some(TTL));
        for lease in [A, B] {
            assert_eq!(deadlines.remaining(&lease, at(100)), Some(Duration::from_millis(3500)));
        }
    }

    #[test]
    fn lease_age_is_unknown_after_an_entry_without_a_stamp() {
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.applied(at(100), stamp(2, 1000));
        deadlines.restart(A, TTL, at(100), None);
        deadlines.applied(at(100), None);
        deadlines.applied(at(100), stamp(2, 9000));
        deadlines.account_for_age(|_| Some(TTL));
        assert_eq!(deadlines.remaining(&A, at(100)), Some(TTL));
    }

    #[test]
    fn lease_age_keeps_time_that_was_given_back() {
        let mut deadlines: Deadlines = Deadlines::default();
        deadlines.restart(A, TTL, at(1000), stamp(2, 1000));
        deadlines.applied(at(1000), stamp(2, 1000));
        deadlines.hold_back(at(2000), Duration::from_millis(700));
        deadlines.applied(at(3000), stamp(2, 3000));
        deadlines.account_for_age(|_| Some(TTL));
        assert_eq!(deadlines.remaining(&A, at(3000)), Some(Duration::from_millis(3700)));
    }
}
