//! What elections and locks need of a member beside its state: tell its listeners, and on the
//! raft leader's clock end what has lasted long enough.

use std::time::Duration;

use bytes::Bytes;
use tenure_api::LeaseId;

use super::Replica;
use crate::{
    Moment,
    command::{Command, ELECTIONS_SINCE, ElectionCommand, EntryClock, LOST_TIME_SINCE, Overdue},
    election::{Candidate, ElectionEvent, listeners::Listeners},
    lease::Deadlines,
};

/// Overdue things that go into one command.
const OVERDUE_PER_COMMAND: usize = 256;
/// What is proposed and has not ended by then is proposed again.
const OVERDUE_AGAIN: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct Elections {
    pub(super) listeners: Listeners,
    /// When the wait for the stop of sessions that ended without a word is over.
    delays: Deadlines<LeaseId>,
    /// When leaders that were asked to make room have had time enough.
    drains: Deadlines<Bytes>,
}

impl Elections {
    pub(super) fn hold_back(&mut self, now: Moment, lost: Duration) {
        self.delays.hold_back(now, lost);
        self.drains.hold_back(now, lost);
    }

    /// How much longer a session that held may still be acting.
    pub(super) fn left_of(&self, session: &LeaseId, now: Moment) -> Duration {
        self.delays.remaining(session, now).unwrap_or_default()
    }

    pub(super) fn next_check(&self) -> Option<Moment> {
        self.delays.next_check().into_iter().chain(self.drains.next_check()).min()
    }
}

impl Replica {
    /// Must come before the deadlines of ended leases are forgotten: what was left of them counts. Of
    /// those that gave a sign of life in the same breath, that is everything.
    pub(super) fn follow_elections(
        &mut self,
        now: Moment,
        events: &[ElectionEvent],
        renewed: &[LeaseId],
    ) {
        for event in events {
            match event {
                ElectionEvent::Delayed { session } => {
                    let left = self.deadlines.remaining(session, now);
                    let left = left.filter(|_| !renewed.contains(session));
                    let whole = self.delay_of(*session);
                    self.elections.delays.forget(session);
                    self.elections.delays.restart(*session, left.unwrap_or(whole), now, None);
                }
                ElectionEvent::DelayOver { session } => self.elections.delays.forget(session),
                ElectionEvent::DrainCancelled { name, .. } => self.forget_drain(name),
                ElectionEvent::Drain { name, within_ms, .. } => {
                    self.elections.drains.forget(name);
                    self.elections.drains.restart(
                        name.clone(),
                        Duration::from_millis(*within_ms),
                        now,
                        None,
                    );
                }
                ElectionEvent::Began { .. } => self.effects.tenures_begun += 1,
                ElectionEvent::TenureEnded { name, tenure } => {
                    self.forget_drain(name);
                    let until = tenure.end.map_or(tenure.from_ms, |end| end.at_ms);
                    self.effects.held_ms.push(until.saturating_sub(tenure.from_ms));
                }
                ElectionEvent::Granted { name, candidate, .. } => {
                    let clock = self.clock_ms(now).unwrap_or_default();
                    self.effects.waited_ms.push(clock.saturating_sub(candidate.since_ms));
                    let since = self.vacant_since_ms(name, candidate).unwrap_or(clock);
                    self.effects.vacant_ms += clock.saturating_sub(since);
                }
                _ => {}
            }
        }
        self.elections.listeners.observe(events);
    }

    /// Since when this name had candidates but no leader. None if other candidates hold it beside this one.
    fn vacant_since_ms(&self, name: &Bytes, led_by: &Candidate) -> Option<u64> {
        let election = self.state.elections.election(name)?;
        election.leader().filter(|leader| leader.created == led_by.created)?;
        let before = election.tenures().filter_map(|tenure| tenure.end).map(|end| end.at_ms).max();
        Some(before.unwrap_or(0).max(led_by.since_ms))
    }

    /// Unless another transfer is under way already, no leader is asked to make room any more.
    fn forget_drain(&mut self, name: &Bytes) {
        if self.state.elections.election(name).is_none_or(|election| election.transfer().is_none())
        {
            self.elections.drains.forget(name);
        }
    }

    fn delay_of(&self, session: LeaseId) -> Duration {
        let delay = self.state.elections.delay(session);
        Duration::from_millis(delay.map_or(0, |delay| delay.ttl_ms))
    }

    /// A member that has just come up, or skipped a part of the log, cannot know how long anything has
    /// lasted: everything gets its whole time.
    pub(super) fn restart_elections(&mut self, now: Moment) {
        self.elections.delays = Deadlines::default();
        self.elections.drains = Deadlines::default();
        for (session, delay) in self.state.elections.delays() {
            self.elections.delays.restart(session, Duration::from_millis(delay.ttl_ms), now, None);
        }
        for (name, election) in self.state.elections.elections() {
            if let Some(transfer) = election.transfer() {
                let within = Duration::from_millis(transfer.within_ms);
                self.elections.drains.restart(name.clone(), within, now, None);
            }
        }
        self.elections.listeners.resync(&self.state);
    }

    /// The raft leader proposes the end of what has lasted long enough.
    pub(super) fn end_overdue(&mut self, now: Moment) {
        if !self.may_expire() || self.state.cluster_version < ELECTIONS_SINCE {
            return;
        }
        let mut overdue = Vec::new();
        for session in self.elections.delays.take_due(now, OVERDUE_PER_COMMAND) {
            let Some(since) = self.state.elections.delay(session).map(|delay| delay.since) else {
                self.elections.delays.forget(&session);
                continue;
            };
            self.elections.delays.put_back(session, now + OVERDUE_AGAIN);
            overdue.push(Overdue::Delay(session, since));
        }
        for name in self.elections.drains.take_due(now, OVERDUE_PER_COMMAND) {
            let election = self.state.elections.election(&name);
            match election.and_then(|election| election.candidate_of(election.transfer()?.to)) {
                Some(successor) => {
                    self.elections.drains.put_back(name.clone(), now + OVERDUE_AGAIN);
                    overdue.push(Overdue::Drain(name, successor.created));
                }
                None => self.elections.drains.forget(&name),
            }
        }
        if !overdue.is_empty() {
            let command = Command::Election(ElectionCommand::Overdue(self.raft.term(), overdue));
            let _ = self.propose_own(now, &command);
        }
    }

    /// What entries carry of this member's clock, as far as every member can read it.
    pub(super) fn entry_clock(&mut self, now: Moment) -> EntryClock {
        let Some(ms) = self.clock_ms(now) else { return EntryClock::default() };
        let lost_ms = self.lost_time().as_millis() as u64;
        let tells = self.state.cluster_version >= LOST_TIME_SINCE;
        EntryClock { ms, lost_ms: tells.then_some(lost_ms) }
    }

    /// The clock for people, if every member can read entries that carry it.
    pub(super) fn clock_ms(&self, now: Moment) -> Option<u64> {
        let elections = self.state.cluster_version >= ELECTIONS_SINCE;
        elections.then(|| self.config.clock_start_ms + now.since_start().as_millis() as u64)
    }
}
