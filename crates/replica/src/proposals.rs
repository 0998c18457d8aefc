//! The raft leader's own queue: batches of all members on their way into the log.
//!
//! As with [`Writes`](crate::writes::Writes), one entry is under way at a time while the cluster is
//! fast; whatever arrives meanwhile goes into the next entry, and the next entry waits a moment for
//! the members that were in the last ones.
//!
//! A member sends a batch again when it has waited long for it. If the first one has only not had its turn yet, another would
//! make all members wait longer still, and be sent again; so what is in the queue or in the log already is not taken twice.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;

use crate::{
    Moment, PipelineLimits,
    batch_window::BatchWindow,
    command::{BatchNumber, EntryClock, encode_entry},
    log::LogIndex,
    writes::Sealed,
};

/// An entry takes no more batches once it has so many bytes.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Bytes of batches that may wait; more are dropped, and sent again by their members.
const QUEUED_BYTES_MAX: usize = 256 << 20;

#[derive(Debug, Default)]
pub(crate) struct Proposals {
    limits: PipelineLimits,
    queue: VecDeque<Sealed>,
    queued_bytes: usize,
    /// Since when the first of the queue has been waiting to be proposed.
    queued_since: Option<Moment>,
    batch_window: BatchWindow,
    in_flight: VecDeque<(LogIndex, Moment)>,
    /// Batches that were taken and not applied yet.
    under_way: BTreeSet<BatchNumber>,
    /// Raft did not take the last one: it is tried again when something happens, or with the next
    /// tick.
    refused: bool,
}

impl Proposals {
    pub(crate) fn new(limits: PipelineLimits) -> Proposals {
        Proposals { limits, ..Proposals::default() }
    }

    pub(crate) fn push(&mut self, batch: Sealed) {
        let fits = self.queued_bytes + batch.bytes.len() <= QUEUED_BYTES_MAX;
        if fits && self.under_way.insert(batch.number) {
            self.queued_bytes += batch.bytes.len();
            self.queue.push_back(batch);
        }
    }

    /// A batch was applied, or turned out to have overtaken another. If it comes again it is another matter.
    pub(crate) fn settled(&mut self, batch: BatchNumber) {
        self.under_way.remove(&batch);
    }

    /// The change of members that is next in the queue, if one is and an entry may go.
    pub(crate) fn next_change(&self, now: Moment) -> Option<Bytes> {
        let first = self.queue.front().filter(|first| first.is_change)?;
        self.may_propose(now).then(|| first.bytes.clone())
    }

    /// The change that is next in the queue was proposed at this index; none if that must wait.
    pub(crate) fn change_proposed(&mut self, now: Moment, index: Option<LogIndex>) {
        self.refused = index.is_none();
        let Some(index) = index else { return };
        if let Some(first) = self.queue.pop_front() {
            self.queued_bytes -= first.bytes.len();
        }
        self.queued_since = None;
        self.in_flight.push_back((index, now));
    }

    /// The change that is next in the queue will not be made; its batch carries this instead.
    pub(crate) fn change_refused(&mut self, instead: Bytes) {
        if let Some(first) = self.queue.front_mut() {
            self.queued_bytes = self.queued_bytes - first.bytes.len() + instead.len();
            let number = first.number;
            *first = Sealed { number, bytes: instead, is_change: false, commands: 1, weight: 1 };
        }
    }

    /// Hands the next entry to `propose` if one may go; it answers the entry's index, or none if
    /// raft does not take it now.
    pub(crate) fn propose_next(
        &mut self,
        now: Moment,
        clock: EntryClock,
        propose: impl FnOnce(Vec<u8>) -> Option<LogIndex>,
    ) -> bool {
        let is_change = |batch: &Sealed| batch.is_change;
        if self.queue.front().is_none_or(is_change) {
            return false;
        }
        let since = *self.queued_since.get_or_insert(now);
        let waiting = self.queue.iter().map(|batch| batch.commands).sum();
        let complete = self.batch_window.is_complete(waiting, since, now);
        if !self.may_propose(now) || (self.in_flight.is_empty() && !complete) {
            return false;
        }
        let weight_max = self.limits.entry_weight_max;
        let (mut bytes, mut weight) = (0, 0);
        let fits = |batch: &&Sealed| {
            bytes += batch.bytes.len();
            weight += batch.weight;
            bytes <= ENTRY_BYTES_MAX && weight <= weight_max && !batch.is_change
        };
        let count = self.queue.iter().take_while(fits).count().max(1);
        let batches: Vec<Bytes> =
            self.queue.range(..count).map(|batch| batch.bytes.clone()).collect();
        let proposed = propose(encode_entry(clock, &batches));
        self.refused = proposed.is_none();
        let Some(index) = proposed else { return false };
        let mut commands = 0;
        for batch in self.queue.drain(..count) {
            self.queued_bytes -= batch.bytes.len();
            commands += batch.commands;
        }
        self.queued_since = None;
        self.batch_window.went(commands);
        self.in_flight.push_back((index, now));
        true
    }

    fn may_propose(&self, now: Moment) -> bool {
        match self.in_flight.back() {
            None => true,
            Some((_, since)) => {
                self.in_flight.len() < self.limits.entries_max
                    && now.since(*since) >= self.limits.follow_after
            }
        }
    }

    pub(crate) fn applied(&mut self, now: Moment, index: LogIndex) {
        while let Some((_, since)) = self.in_flight.pop_front_if(|(at, _)| *at <= index) {
            self.batch_window.came_back(now.since(since));
        }
    }

    /// This member does not lead any more: the members will send their batches to the new raft leader.
    pub(crate) fn clear(&mut self) {
        *self = Proposals::new(self.limits);
    }

    pub(crate) fn next_propose(&self) -> Option<Moment> {
        if self.queue.is_empty() || self.refused || self.in_flight.len() >= self.limits.entries_max
        {
            return None;
        }
        match self.in_flight.back() {
            None => self.queued_since.map(|since| self.batch_window.ends_at(since)),
            Some((_, since)) => Some(*since + self.limits.follow_after),
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_api::MemberId;

    use std::time::Duration;

    use super::*;

    fn batch(sequence: u64) -> Sealed {
        let number = BatchNumber { origin: MemberId(1), boot: 1, sequence };
        let bytes = Bytes::from_static(b"a batch");
        Sealed { number, bytes, is_change: false, commands: 1, weight: 1 }
    }

    fn entries(proposals: &mut Proposals) -> usize {
        let mut index = 0;
        while proposals.propose_next(
            Moment::after_start(Duration::from_secs(index)),
            EntryClock::default(),
            |_| {
                index += 1;
                Some(index)
            },
        ) {}
        index as usize
    }

    #[test]
    fn proposals_take_a_repeated_batch_once() {
        let mut proposals = Proposals::default();
        proposals.push(batch(1));
        proposals.push(batch(1));
        assert_eq!(proposals.queue.len(), 1);
        assert_eq!(entries(&mut proposals), 1);
        proposals.push(batch(1));
        proposals.push(batch(2));
        assert_eq!(proposals.queue.len(), 1, "the first is in the log");
        proposals.settled(batch(1).number);
        proposals.push(batch(1));
        assert_eq!(proposals.queue.len(), 2, "it may have been applied before its time");
        proposals.clear();
        proposals.push(batch(2));
        assert_eq!(proposals.queue.len(), 1, "another raft leader starts anew");
    }

    #[test]
    fn proposals_take_a_batch_when_there_is_room_again() {
        let mut proposals = Proposals::default();
        let large = Sealed { bytes: vec![0; QUEUED_BYTES_MAX].into(), ..batch(1) };
        proposals.push(large);
        proposals.push(batch(2));
        assert_eq!(proposals.queue.len(), 1);
        assert_eq!(entries(&mut proposals), 1);
        proposals.push(batch(2));
        assert_eq!(proposals.queue.len(), 1);
    }
}
