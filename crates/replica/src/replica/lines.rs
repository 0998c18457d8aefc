//! What elections and locks ask of a member beside its state: tell those who listen here, and on the
//! raft leader's clock end what has lasted long enough.

use std::time::Duration;

use bytes::Bytes;
use tenure_api::LeaseId;

use super::Replica;
use crate::{
    command::{Command, LINES_SINCE, LineCommand, Overdue},
    lease::Deadlines,
    moment::Moment,
    queue::{Event, Place, listeners::Listeners},
};

/// Overdue things that go into one command.
const OVERDUE_PER_COMMAND: usize = 256;
/// What is proposed and has not ended by then is proposed again.
const OVERDUE_AGAIN: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) listeners: Listeners,
    /// When nobody needs to wait any more for the stop of sessions that ended without a word.
    delays: Deadlines<LeaseId>,
    /// When leaders that were asked to make room have had time enough.
    drains: Deadlines<Bytes>,
}

impl Lines {
    pub(super) fn hold_back(&mut self, lost: Duration) {
        self.delays.hold_back(lost);
        self.drains.hold_back(lost);
    }

    /// How long nobody may be sure yet that a session which held has stopped.
    pub(super) fn left_of(&self, session: &LeaseId, now: Moment) -> Duration {
        self.delays.remaining(session, now).unwrap_or_default()
    }

    pub(super) fn next_check(&self) -> Option<Moment> {
        self.delays.next_check().into_iter().chain(self.drains.next_check()).min()
    }
}

impl Replica {
    /// How long a lease lives without a sign of life.
    pub(super) fn time_to_live(&self, lease: LeaseId) -> Option<Duration> {
        let secs = self.state.leases.get(lease)?.ttl_secs.max(1) as u64;
        Some(match self.state.queues.session(lease) {
            Some(session) => Duration::from_millis(session.ttl_ms),
            None => Duration::from_secs(secs),
        })
    }

    /// Must come before the deadlines of ended leases are forgotten: what was left of them counts. Of
    /// those that gave a sign of life in the same breath, that is everything.
    pub(super) fn follow_lines(&mut self, now: Moment, events: &[Event], renewed: &[LeaseId]) {
        for event in events {
            match event {
                Event::Delayed { session } => {
                    let left = self.deadlines.remaining(session, now);
                    let left = left.filter(|_| !renewed.contains(session));
                    let whole = self.delay_of(*session);
                    self.lines.delays.forget(session);
                    self.lines.delays.restart(*session, left.unwrap_or(whole), now);
                }
                Event::DelayOver { session } => self.lines.delays.forget(session),
                Event::DrainCancelled { name, .. } => self.forget_drain(name),
                Event::Drain { name, within_ms, .. } => {
                    self.lines.drains.forget(name);
                    self.lines.drains.restart(name.clone(), Duration::from_millis(*within_ms), now);
                }
                Event::Began { .. } => self.effects.tenures_begun += 1,
                Event::Ended { name, tenure } => {
                    self.forget_drain(name);
                    let until = tenure.end.map_or(tenure.from_ms, |end| end.at_ms);
                    self.effects.held_ms.push(until.saturating_sub(tenure.from_ms));
                }
                Event::Granted { name, place, .. } => {
                    let clock = self.clock_ms(now).unwrap_or_default();
                    self.effects.waited_ms.push(clock.saturating_sub(place.since_ms));
                    let since = self.vacant_since_ms(name, place).unwrap_or(clock);
                    self.effects.vacant_ms += clock.saturating_sub(since);
                }
                _ => {}
            }
        }
        self.lines.listeners.observe(events);
    }

    /// Since when nobody led this name, though somebody waited. None if others hold it beside this one.
    fn vacant_since_ms(&self, name: &Bytes, led_by: &Place) -> Option<u64> {
        let line = self.state.queues.line(name)?;
        line.leader().filter(|leader| leader.created == led_by.created)?;
        let before = line.tenures().filter_map(|tenure| tenure.end).map(|end| end.at_ms).max();
        Some(before.unwrap_or(0).max(led_by.since_ms))
    }

    /// Unless another transfer is under way already, nobody is asked to make room any more.
    fn forget_drain(&mut self, name: &Bytes) {
        if self.state.queues.line(name).is_none_or(|line| line.transfer().is_none()) {
            self.lines.drains.forget(name);
        }
    }

    fn delay_of(&self, session: LeaseId) -> Duration {
        let delay = self.state.queues.delay(session);
        Duration::from_millis(delay.map_or(0, |delay| delay.ttl_ms))
    }

    /// A member that has just come up, or skipped a part of the log, cannot know how long anything has
    /// lasted: everything gets its whole time.
    pub(super) fn restart_lines(&mut self, now: Moment) {
        self.lines.delays = Deadlines::default();
        self.lines.drains = Deadlines::default();
        for (session, delay) in self.state.queues.delays() {
            self.lines.delays.restart(session, Duration::from_millis(delay.ttl_ms), now);
        }
        for (name, line) in self.state.queues.lines() {
            if let Some(transfer) = line.transfer() {
                let within = Duration::from_millis(transfer.within_ms);
                self.lines.drains.restart(name.clone(), within, now);
            }
        }
        self.lines.listeners.resync(&self.state);
    }

    /// The raft leader proposes the end of what has lasted long enough.
    pub(super) fn end_overdue(&mut self, now: Moment) {
        if !self.may_expire() || self.state.cluster_version < LINES_SINCE {
            return;
        }
        let mut overdue = Vec::new();
        for session in self.lines.delays.take_due(now, OVERDUE_PER_COMMAND) {
            let Some(since) = self.state.queues.delay(session).map(|delay| delay.since) else {
                self.lines.delays.forget(&session);
                continue;
            };
            self.lines.delays.put_back(session, now + OVERDUE_AGAIN);
            overdue.push(Overdue::Delay(session, since));
        }
        for name in self.lines.drains.take_due(now, OVERDUE_PER_COMMAND) {
            let line = self.state.queues.line(&name);
            match line.and_then(|line| line.place_of(line.transfer()?.to)) {
                Some(successor) => {
                    self.lines.drains.put_back(name.clone(), now + OVERDUE_AGAIN);
                    overdue.push(Overdue::Drain(name, successor.created));
                }
                None => self.lines.drains.forget(&name),
            }
        }
        if !overdue.is_empty() {
            let command = Command::Line(LineCommand::Overdue(self.raft.term(), overdue));
            let _ = self.writes.push(now, None, &command);
        }
    }

    /// The clock for people, if every member can read entries that carry it.
    pub(super) fn clock_ms(&self, now: Moment) -> Option<u64> {
        let lines = self.state.cluster_version >= LINES_SINCE;
        lines.then(|| self.config.clock_start_ms + now.since_start().as_millis() as u64)
    }
}
