//! Since when leases can be renewed, as far as the raft leader knows.
//!
//! A lease must not run out for want of a way to renew it. A raft leader that is cut off does not notice at once: with
//! check-quorum it believes in itself for up to two election timeouts, and if its links come back in time, it never steps
//! down. Four rules follow.
//!
//! - Time without contact to a quorum, or without a commit though something waits for one, counts as time in which nothing
//!   could be renewed. It is given back to every lease as soon as the contact is back.
//! - Heartbeats tell the followers of that time. One of them may lead next, and could not know otherwise: it hears a raft
//!   leader that hears no quorum.
//! - A lease is judged only by a raft leader that was one *after* the lease's deadline: a quorum has confirmed a round
//!   that began later, and nothing older than the deadline waits to be committed. So an expiry in the log is right in every
//!   later term, too.
//! - A message tells how things stood when it arrived, not when it is handled. A slow member works through heartbeats of a
//!   raft leader that was cut off long ago.

use std::{collections::BTreeMap, time::Duration};

use tenure_api::{MemberId, Term};

use super::{PAUSE_MIN, Replica};
use crate::{Moment, log::LogIndex, message::RaftKind};

/// Heartbeats that may go without an answer before the time counts as lost.
const HEARTBEATS_MISSED: u32 = 2;

/// A time in which this process did not run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    pub(super) lasted: Duration,
    pub(super) until: Moment,
}

impl Pause {
    /// When a message would have arrived without the pause. What came before or during it was not seen until its end, and
    /// every lease was given the time already.
    pub(super) fn leave_out(self, arrived: Moment) -> Moment {
        if arrived < self.until { self.until.min(arrived + self.lasted) } else { arrived }
    }
}

#[derive(Debug)]
pub(super) struct Contact {
    /// When each follower last answered in this term.
    answered: BTreeMap<MemberId, Moment>,
    /// When a quorum last had.
    quorum: Moment,
    /// When something was last committed, or nothing waited for it.
    progress: Moment,
    committed: LogIndex,
    /// How much lost time the entries of this term tell of.
    lost_told: Duration,
}

impl Contact {
    pub(super) fn new(now: Moment) -> Contact {
        let (answered, lost_told) = (BTreeMap::new(), Duration::ZERO);
        Contact { answered, quorum: now, progress: now, committed: 0, lost_told }
    }

    /// Time that already counts as a pause must not count as lost contact too.
    pub(super) fn paused(&mut self, pause: Duration) {
        self.answered.values_mut().for_each(|at| *at = *at + pause);
        self.quorum = self.quorum + pause;
        self.progress = self.progress + pause;
    }

    /// The last moment at which a renewal could be committed, as far as is known.
    pub(super) fn last(&self) -> Moment {
        self.quorum.min(self.progress)
    }

    /// Notes how things stand. Answers how much time was lost until now; zero while it lasts.
    fn observe(&mut self, now: Moment, seen: &Seen) -> Duration {
        let silence = seen.quorum.since(self.quorum);
        let standstill = now.since(self.progress);
        let has_progress = !seen.is_pending || seen.committed > self.committed;
        self.quorum = self.quorum.max(seen.quorum);
        self.committed = seen.committed;
        let mut lost = Duration::ZERO;
        if has_progress {
            self.progress = now;
            lost = if standstill > seen.standstill_max { standstill } else { lost };
        }
        if silence > seen.silence_max {
            // Whatever waited meanwhile waited for the same reason.
            self.progress = now;
            lost = lost.max(silence);
        }
        lost
    }
}

/// What the raft leader sees, and what is usual.
struct Seen {
    quorum: Moment,
    committed: LogIndex,
    is_pending: bool,
    silence_max: Duration,
    standstill_max: Duration,
}

impl Replica {
    /// A follower answers the raft leader.
    pub(super) fn answered_by(
        &mut self,
        arrived: Moment,
        from: MemberId,
        kind: RaftKind,
        term: Term,
    ) {
        let answers = matches!(kind, RaftKind::AppendResponse | RaftKind::HeartbeatResponse);
        if answers && self.is_leader() && term == self.raft.term() {
            let last = self.contact.answered.entry(from).or_insert(arrived);
            *last = arrived.max(*last);
        }
    }

    /// So long may the raft leader be silent, or a quorum of its followers, before the time counts as lost.
    pub(super) fn silence_max(&self) -> Duration {
        PAUSE_MIN.max(HEARTBEATS_MISSED * self.config.heartbeat)
    }

    /// This member begins to lead.
    pub(super) fn contact_begins(&mut self, now: Moment) {
        self.contact = Contact::new(now);
    }

    /// The raft leader gives back the time in which nothing could be renewed.
    pub(super) fn follow_contact(&mut self, now: Moment) {
        if !self.is_leader() {
            return;
        }
        let began = self.contact.quorum;
        let answered = &self.contact.answered;
        let at = |member| answered.get(&member).copied().unwrap_or(began);
        let seen = Seen {
            quorum: self.raft.quorum_moment(now, at),
            committed: self.raft.committed(),
            is_pending: self.raft.committed() < self.raft.last_index(),
            silence_max: self.silence_max(),
            standstill_max: self.config.election_timeout,
        };
        let lost = self.contact.observe(now, &seen);
        // Until leases are renewable for the first time, all of it is given back anyway.
        if !lost.is_zero() && self.leadership.is_renewable() && !canary!(CutOffTimeCounts) {
            self.hold_back(now, lost);
        }
    }

    /// For how long the raft leader has been without contact to a quorum, or stood still; zero if that is no longer
    /// than usual.
    pub(super) fn alone_for(&self) -> Duration {
        let unusual = |since: Moment, usual: Duration| {
            Some(self.last_call.since(since)).filter(|silence| *silence > usual)
        };
        if !self.is_leader() || canary!(AloneUntold) {
            return Duration::ZERO;
        }
        let silence = unusual(self.contact.quorum, self.silence_max());
        let standstill = unusual(self.contact.progress, self.config.election_timeout);
        silence.max(standstill).unwrap_or_default()
    }

    /// For how long nothing could be renewed since this member began to lead, and before. It never decreases while the
    /// member leads: time that was told of as lost may turn out not to have been, and leases must not end early for that.
    pub(super) fn lost_time(&mut self) -> Duration {
        let lost = self.deadlines.held_back() + self.alone_for();
        self.contact.lost_told = self.contact.lost_told.max(lost);
        self.contact.lost_told
    }

    /// Every lease and everything else that the raft leader's clock ends lives so much longer.
    pub(super) fn hold_back(&mut self, now: Moment, lost: Duration) {
        self.deadlines.hold_back(now, lost);
        self.elections.hold_back(now, lost);
    }

    /// Up to which moment the raft leader may judge leases.
    pub(super) fn judges_until(&self, now: Moment) -> Option<Moment> {
        if canary!(VerdictUnasked) {
            return Some(now);
        }
        let is_pending = self.raft.committed() < self.raft.last_index();
        let progress = if is_pending { self.contact.progress } else { now };
        self.reads.confirmed_at().map(|confirmed| confirmed.min(progress))
    }
}
