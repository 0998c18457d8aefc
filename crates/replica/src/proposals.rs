//! The raft leader's own queue: batches of all members on their way into the log.
//!
//! As with [`Writes`](crate::writes::Writes), one entry is under way at a time while the cluster is
//! fast; whatever arrives meanwhile goes into the next entry, and the next entry waits a moment for
//! the members that were in the last ones.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;

use crate::{command::encode_entry, gather::Gather, log::LogIndex, moment::Moment, writes::Sealed};

/// Entries that may be uncommitted at once.
const IN_FLIGHT_MAX: usize = 64;
/// An entry uncommitted for so long lets the next one follow.
const PIPELINE_AFTER: Duration = Duration::from_millis(2);
/// An entry takes no more batches once it has so many bytes.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// An entry takes no more batches once it has so many commands: it is applied in one go.
const ENTRY_COMMANDS_MAX: usize = 2048;
/// Bytes of batches that may wait; more are dropped, and sent again by their members.
const QUEUED_BYTES_MAX: usize = 256 << 20;

#[derive(Debug, Default)]
pub(crate) struct Proposals {
    queue: VecDeque<Sealed>,
    queued_bytes: usize,
    /// Since when the first of the queue has been waiting for a place in the log.
    queued_since: Option<Moment>,
    gather: Gather,
    in_flight: VecDeque<(LogIndex, Moment)>,
    /// Raft did not take the last one: it is tried again when something happens, or with the next
    /// tick.
    refused: bool,
}

impl Proposals {
    pub(crate) fn push(&mut self, batch: Sealed) {
        if self.queued_bytes + batch.bytes.len() <= QUEUED_BYTES_MAX {
            self.queued_bytes += batch.bytes.len();
            self.queue.push_back(batch);
        }
    }

    /// The change of members that is next in line, if one is and an entry may go.
    pub(crate) fn next_change(&self, now: Moment) -> Option<Bytes> {
        let first = self.queue.front().filter(|first| first.is_change)?;
        self.may_propose(now).then(|| first.bytes.clone())
    }

    /// The change that is next in line was proposed at this place; none if that must wait.
    pub(crate) fn change_proposed(&mut self, now: Moment, index: Option<LogIndex>) {
        self.refused = index.is_none();
        let Some(index) = index else { return };
        if let Some(first) = self.queue.pop_front() {
            self.queued_bytes -= first.bytes.len();
        }
        self.queued_since = None;
        self.in_flight.push_back((index, now));
    }

    /// The change that is next in line will not be made; its batch carries this instead.
    pub(crate) fn change_refused(&mut self, instead: Bytes) {
        if let Some(first) = self.queue.front_mut() {
            self.queued_bytes = self.queued_bytes - first.bytes.len() + instead.len();
            *first = Sealed { bytes: instead, is_change: false, commands: 1 };
        }
    }

    /// Hands the next entry to `propose` if one may go; it answers the entry's place, or none if
    /// raft does not take it now.
    pub(crate) fn propose_next(
        &mut self,
        now: Moment,
        clock_ms: Option<u64>,
        propose: impl FnOnce(Vec<u8>) -> Option<LogIndex>,
    ) -> bool {
        let is_change = |batch: &Sealed| batch.is_change;
        if self.queue.front().is_none_or(is_change) {
            return false;
        }
        let since = *self.queued_since.get_or_insert(now);
        let waiting = self.queue.iter().map(|batch| batch.commands).sum();
        let complete = self.gather.is_complete(waiting, since, now);
        if !self.may_propose(now) || (self.in_flight.is_empty() && !complete) {
            return false;
        }
        let (mut bytes, mut commands) = (0, 0);
        let fits = |batch: &&Sealed| {
            bytes += batch.bytes.len();
            commands += batch.commands;
            bytes <= ENTRY_BYTES_MAX && commands <= ENTRY_COMMANDS_MAX && !batch.is_change
        };
        let count = self.queue.iter().take_while(fits).count().max(1);
        let batches: Vec<Bytes> =
            self.queue.range(..count).map(|batch| batch.bytes.clone()).collect();
        let proposed = propose(encode_entry(clock_ms, &batches));
        self.refused = proposed.is_none();
        let Some(index) = proposed else { return false };
        let mut commands = 0;
        for batch in self.queue.drain(..count) {
            self.queued_bytes -= batch.bytes.len();
            commands += batch.commands;
        }
        self.queued_since = None;
        self.gather.went(commands);
        self.in_flight.push_back((index, now));
        true
    }

    fn may_propose(&self, now: Moment) -> bool {
        match self.in_flight.back() {
            None => true,
            Some((_, since)) => {
                self.in_flight.len() < IN_FLIGHT_MAX && now.since(*since) >= PIPELINE_AFTER
            }
        }
    }

    pub(crate) fn applied(&mut self, now: Moment, index: LogIndex) {
        while let Some((_, since)) = self.in_flight.pop_front_if(|(at, _)| *at <= index) {
            self.gather.came_back(now.since(since));
        }
    }

    /// This member does not lead any more: the members will send their batches to whoever does.
    pub(crate) fn clear(&mut self) {
        *self = Proposals::default();
    }

    pub(crate) fn next_propose(&self) -> Option<Moment> {
        if self.queue.is_empty() || self.refused || self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        match self.in_flight.back() {
            None => self.queued_since.map(|since| self.gather.ends_at(since)),
            Some((_, since)) => Some(*since + PIPELINE_AFTER),
        }
    }
}
