//! Requests that change the state, from their arrival to their one answer.
//!
//! They wait in *open* batches and travel in numbered *sent* batches. One batch is under way at a
//! time while the cluster is fast, so that everything that arrives meanwhile forms the next: that is
//! where the throughput comes from. When an answer takes longer (a slow disk or link), more follow
//! without waiting. A sent batch is kept until it is applied, and sent again when the raft leader
//! changes; [`State::admits`](crate::state::State::admits) sees to it that it is applied once.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use tenure_api::{Failure, MemberId};

use crate::{
    codec::Codec,
    command::{Command, encode_batch_head},
    input::RequestId,
    moment::Moment,
};

/// Batches of this member that may be under way at once.
const SENT_MAX: usize = 8;
/// A batch under way for so long lets the next one follow.
const PIPELINE_AFTER: Duration = Duration::from_millis(2);
/// A batch takes no more commands once it has so many bytes.
const BATCH_BYTES_MAX: usize = 512 << 10;
/// A batch takes no more commands than this.
const BATCH_COMMANDS_MAX: usize = 4096;
/// Bytes that may wait before requests are turned away.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// One member's requests that are not answered yet.
#[derive(Debug)]
pub(crate) struct Writes {
    me: MemberId,
    boot: u64,
    last_sequence: u64,
    open: VecDeque<Open>,
    sent: VecDeque<Sent>,
    waiting_bytes: usize,
}

/// Who waits for a command's outcome. Commands of the replica itself have nobody waiting.
pub(crate) type Waiter = Option<RequestId>;

#[derive(Debug)]
struct Open {
    commands: Vec<u8>,
    waiters: Vec<Waiter>,
    since: Moment,
    /// Nothing may be added to it: it carries a change of the members.
    is_change: bool,
}

#[derive(Debug)]
struct Sent {
    sequence: u64,
    bytes: Bytes,
    waiters: Vec<Waiter>,
    since: Moment,
    sent_at: Moment,
    is_change: bool,
}

/// A batch on its way to the raft leader.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) bytes: Bytes,
    /// It carries a change of the members that concerns raft.
    pub(crate) is_change: bool,
}

impl Writes {
    pub(crate) fn new(me: MemberId, boot: u64) -> Writes {
        Writes {
            me,
            boot,
            last_sequence: 0,
            open: VecDeque::new(),
            sent: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// Takes a command in.
    pub(crate) fn push(
        &mut self,
        now: Moment,
        waiter: Waiter,
        command: &Command,
    ) -> Result<(), Failure> {
        if self.waiting_bytes > WAITING_BYTES_MAX {
            return Err(Failure::TooManyRequests);
        }
        let is_change = command.concerns_raft();
        let full = |open: &Open| {
            open.commands.len() >= BATCH_BYTES_MAX
                || open.waiters.len() >= BATCH_COMMANDS_MAX
                || open.is_change
        };
        if is_change || self.open.back().is_none_or(full) {
            self.open.push_back(Open { commands: vec![], waiters: vec![], since: now, is_change });
        }
        let open = self.open.back_mut().expect("an open batch was just made sure of");
        let before = open.commands.len();
        command.encode(&mut open.commands);
        open.waiters.push(waiter);
        self.waiting_bytes += open.commands.len() - before;
        Ok(())
    }

    /// The next batch to send, if one may go.
    pub(crate) fn next_batch(&mut self, now: Moment) -> Option<Sealed> {
        if !self.may_send(now) {
            return None;
        }
        let open = self.open.pop_front()?;
        self.last_sequence += 1;
        self.waiting_bytes -= open.commands.len();
        let bytes = self.seal(self.last_sequence, &open);
        self.sent.push_back(Sent {
            sequence: self.last_sequence,
            bytes: bytes.clone(),
            waiters: open.waiters,
            since: open.since,
            sent_at: now,
            is_change: open.is_change,
        });
        Some(Sealed { bytes, is_change: open.is_change })
    }

    fn may_send(&self, now: Moment) -> bool {
        match self.sent.back() {
            None => true,
            Some(last) => self.sent.len() < SENT_MAX && now.since(last.sent_at) >= PIPELINE_AFTER,
        }
    }

    fn seal(&self, sequence: u64, open: &Open) -> Bytes {
        let mut bytes = Vec::with_capacity(open.commands.len() + 32);
        encode_batch_head(&mut bytes, self.me, self.boot, sequence, open.waiters.len());
        bytes.extend_from_slice(&open.commands);
        bytes.into()
    }

    /// Everything under way, to be sent again in order.
    pub(crate) fn resend(&mut self, now: Moment) -> Vec<Sealed> {
        for sent in &mut self.sent {
            sent.sent_at = now;
        }
        let sealed = |sent: &Sent| Sealed { bytes: sent.bytes.clone(), is_change: sent.is_change };
        self.sent.iter().map(sealed).collect()
    }

    /// When the oldest batch under way was last sent.
    pub(crate) fn oldest_sent_at(&self) -> Option<Moment> {
        self.sent.front().map(|sent| sent.sent_at)
    }

    /// A batch of this member was applied: who waits for its outcomes, in order, and since when.
    pub(crate) fn applied(&mut self, boot: u64, sequence: u64) -> Option<(Vec<Waiter>, Moment)> {
        if boot != self.boot || self.sent.front().map(|sent| sent.sequence) != Some(sequence) {
            return None;
        }
        self.sent.pop_front().map(|sent| (sent.waiters, sent.since))
    }

    /// A snapshot holds this member's batches up to `sequence`: they were applied, but their
    /// outcomes are lost.
    pub(crate) fn applied_unseen(&mut self, boot: u64, sequence: u64) -> Vec<RequestId> {
        let mut lost = Vec::new();
        while boot == self.boot && self.sent.front().is_some_and(|s| s.sequence <= sequence) {
            lost.extend(self.sent.pop_front().into_iter().flat_map(|sent| sent.waiters).flatten());
        }
        lost
    }

    /// Requests that were never sent are given up: those that came before `before`.
    pub(crate) fn give_up_open(&mut self, before: Moment) -> Vec<Waiter> {
        let mut given_up = Vec::new();
        while self.open.front().is_some_and(|open| open.since <= before) {
            if let Some(open) = self.open.pop_front() {
                self.waiting_bytes -= open.commands.len();
                given_up.extend(open.waiters);
            }
        }
        given_up
    }

    /// Nobody waits any longer for batches sent before `before`. Their numbers must still be used
    /// up, but if they were not applied by now they become empty: a write must not appear long after
    /// its client was told that it may have failed.
    pub(crate) fn give_up_sent(&mut self, before: Moment) -> Vec<Waiter> {
        let mut given_up = Vec::new();
        for index in 0..self.sent.len() {
            let sent = &mut self.sent[index];
            if sent.since <= before && !sent.waiters.is_empty() {
                given_up.append(&mut sent.waiters);
                let sequence = sent.sequence;
                sent.is_change = false;
                let nothing =
                    Open { commands: vec![], waiters: vec![], since: before, is_change: false };
                self.sent[index].bytes = self.seal(sequence, &nothing);
            }
        }
        given_up
    }

    /// When a batch that waits may go although another is under way.
    pub(crate) fn next_send(&self) -> Option<Moment> {
        if self.open.is_empty() || self.sent.len() >= SENT_MAX {
            return None;
        }
        self.sent.back().map(|last| last.sent_at + PIPELINE_AFTER)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.sent.is_empty()
    }
}
