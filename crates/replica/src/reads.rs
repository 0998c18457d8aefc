//! Linearizable reads, answered in rounds.
//!
//! A round asks the raft leader "up to where is the log committed, and do you still lead?". All reads
//! that wait share it; those that arrive while it is under way join the next one, because its answer
//! may be older than they are. A round can be lost without notice (no leader, a change of term), so
//! it is started again, under a new name, whenever that may have happened.

use std::collections::VecDeque;

use crate::{
    codec::put_u64,
    input::{Read, RequestId},
    log::LogIndex,
    moment::Moment,
};

/// Reads that may wait for the next round.
const WAITING_READS_MAX: usize = 20_000;

#[derive(Debug)]
pub(crate) struct PendingRead {
    pub(crate) id: RequestId,
    pub(crate) read: Read,
    pub(crate) since: Moment,
}

#[derive(Debug)]
struct Round {
    context: Vec<u8>,
    started: Moment,
    reads: Vec<PendingRead>,
}

#[derive(Debug)]
pub(crate) struct Reads {
    /// Makes the names of this member's rounds unique in the cluster and over its lives.
    name: (u64, u64),
    count: u64,
    waiting: Vec<PendingRead>,
    round: Option<Round>,
    confirmed: VecDeque<(LogIndex, Vec<PendingRead>)>,
}

impl Reads {
    pub(crate) fn new(member: u64, boot: u64) -> Reads {
        Reads {
            name: (member, boot),
            count: 0,
            waiting: vec![],
            round: None,
            confirmed: VecDeque::new(),
        }
    }

    /// False if too many wait already.
    pub(crate) fn push(&mut self, read: PendingRead) -> bool {
        let room = self.waiting.len() < WAITING_READS_MAX;
        if room {
            self.waiting.push(read);
        }
        room
    }

    /// The context of a new round, if reads wait and none is under way.
    pub(crate) fn start_round(&mut self, now: Moment) -> Option<Vec<u8>> {
        if self.round.is_some() || self.waiting.is_empty() {
            return None;
        }
        self.count += 1;
        let mut context = Vec::with_capacity(24);
        for number in [self.name.0, self.name.1, self.count] {
            put_u64(&mut context, number);
        }
        let reads = std::mem::take(&mut self.waiting);
        self.round = Some(Round { context: context.clone(), started: now, reads });
        Some(context)
    }

    /// The round under way may be lost: its reads wait for another.
    pub(crate) fn abandon_round(&mut self) {
        if let Some(mut round) = self.round.take() {
            round.reads.append(&mut self.waiting);
            self.waiting = round.reads;
        }
    }

    /// The raft leader changed. The round under way is lost, and those that are confirmed may wait for
    /// what the old one had and the new one has not.
    pub(crate) fn abandon_all(&mut self) {
        self.abandon_round();
        let confirmed = std::mem::take(&mut self.confirmed);
        self.waiting.extend(confirmed.into_iter().flat_map(|(_, reads)| reads));
    }

    pub(crate) fn confirm(&mut self, context: &[u8], index: LogIndex) {
        if let Some(round) = self.round.take_if(|round| round.context == context) {
            self.confirmed.push_back((index, round.reads));
        }
    }

    /// Reads whose index has been applied: they can be answered from the state as it is.
    pub(crate) fn take_ready(&mut self, applied: LogIndex) -> Vec<PendingRead> {
        let mut ready = Vec::new();
        while self.confirmed.front().is_some_and(|(index, _)| *index <= applied) {
            ready.extend(self.confirmed.pop_front().into_iter().flat_map(|(_, reads)| reads));
        }
        ready
    }

    /// Reads that came at or before a moment are given up.
    pub(crate) fn give_up(&mut self, before: Moment) -> Vec<RequestId> {
        let mut given_up = Vec::new();
        let groups = std::iter::once(&mut self.waiting)
            .chain(self.round.as_mut().map(|round| &mut round.reads))
            .chain(self.confirmed.iter_mut().map(|(_, reads)| reads));
        for reads in groups {
            reads.retain(|read| {
                let keep = read.since > before;
                if !keep {
                    given_up.push(read.id);
                }
                keep
            });
        }
        given_up
    }

    pub(crate) fn round_started(&self) -> Option<Moment> {
        self.round.as_ref().map(|round| round.started)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.round.is_none() && self.confirmed.is_empty()
    }
}
