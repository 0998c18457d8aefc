//! Requests that change the state, from their arrival to their one answer.
//!
//! They wait in *open* batches and travel in numbered *sent* batches. One batch is under way at a
//! time while the cluster is fast, so that everything that arrives meanwhile forms the next: that is
//! where the throughput comes from; for the same reason a batch waits a moment for the company it
//! usually has ([`Gather`]). When an answer takes longer (a slow disk or link), more follow
//! without waiting. So does, *early*, what somebody's turn may depend on: it gets its company at the raft
//! leader. A sent batch is kept until it is applied, and sent again when the raft leader
//! changes; [`State::admits`](crate::state::State::admits) sees to it that it is applied once.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use tenure_api::{Failure, MemberId};

use crate::{
    codec::Codec,
    command::{COMMANDS_MAX, Command, Lane, encode_batch_head},
    gather::Gather,
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
const BATCH_COMMANDS_MAX: usize = 1024;
const _: () =
    assert!(4 * BATCH_COMMANDS_MAX <= COMMANDS_MAX, "a full batch of each lane can be read");
/// Ordinary commands under way; more would only wait at the raft leader, in front of the sessions'.
const SENT_COMMANDS_MAX: usize = 2 * BATCH_COMMANDS_MAX;
/// Commands of a lane that may wait before more are turned away.
const ORDINARY_WAITING_MAX: usize = 20_000;
const SESSION_WAITING_MAX: usize = 200_000;
/// Bytes of a lane that may wait before more are turned away.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// One member's requests that are not answered yet.
#[derive(Debug)]
pub(crate) struct Writes {
    me: MemberId,
    boot: u64,
    last_sequence: u64,
    session: Waiting,
    ordinary: Waiting,
    sent: VecDeque<Sent>,
    gather: Gather,
}

/// Who waits for a command's outcome. Commands of the replica itself have nobody waiting.
pub(crate) type Waiter = Option<RequestId>;

/// The commands of one lane that were not sent yet.
#[derive(Debug)]
struct Waiting {
    open: VecDeque<Open>,
    commands: usize,
    bytes: usize,
    commands_max: usize,
}

/// A batch in the making.
#[derive(Debug)]
struct Open {
    commands: Vec<u8>,
    waiters: Vec<Waiter>,
    since: Moment,
    /// Nothing may be added to it: it carries a change of the members.
    is_change: bool,
    /// It does not wait here, for company or for another batch: somebody's turn may depend on it.
    is_urgent: bool,
}

impl Waiting {
    fn new(commands_max: usize) -> Waiting {
        Waiting { open: VecDeque::new(), commands: 0, bytes: 0, commands_max }
    }

    fn push(&mut self, now: Moment, waiter: Waiter, command: &Command) -> Result<(), Failure> {
        if self.bytes > WAITING_BYTES_MAX || self.commands >= self.commands_max {
            return Err(Failure::TooManyRequests);
        }
        let is_change = command.concerns_raft();
        if is_change || self.open.back().is_none_or(Open::is_full) {
            self.open.push_back(Open {
                commands: vec![],
                waiters: vec![],
                since: now,
                is_change,
                is_urgent: false,
            });
        }
        let open = self.open.back_mut().expect("an open batch was just made sure of");
        let before = open.commands.len();
        command.encode(&mut open.commands);
        open.is_urgent |= command.is_urgent();
        open.waiters.push(waiter);
        self.bytes += open.commands.len() - before;
        self.commands += 1;
        Ok(())
    }

    fn pop(&mut self) -> Option<Open> {
        let open = self.open.pop_front()?;
        self.bytes -= open.commands.len();
        self.commands -= open.waiters.len();
        Some(open)
    }

    fn pop_if(&mut self, wanted: impl FnOnce(&Open) -> bool) -> Option<Open> {
        self.open.front().is_some_and(wanted).then(|| self.pop())?
    }

    fn first(&self) -> Option<&Open> {
        self.open.front()
    }
}

impl Open {
    fn is_full(&self) -> bool {
        self.commands.len() >= BATCH_BYTES_MAX
            || self.waiters.len() >= BATCH_COMMANDS_MAX
            || self.is_change
    }

    fn append(&mut self, other: Open) {
        self.commands.extend_from_slice(&other.commands);
        self.waiters.extend(other.waiters);
        self.since = self.since.min(other.since);
        self.is_urgent |= other.is_urgent;
    }
}

#[derive(Debug)]
struct Sent {
    sequence: u64,
    bytes: Bytes,
    waiters: Vec<Waiter>,
    since: Moment,
    /// The sessions' commands, if others fill the batch up behind them.
    front: Option<Front>,
    sent_at: Moment,
    is_change: bool,
    /// It went before its time, and others need not wait for it.
    is_early: bool,
}

/// The first commands of a batch: they may be younger than the rest by nearly as long as a request may
/// take, and must not be given up along with it.
#[derive(Clone, Copy, Debug)]
struct Front {
    commands: usize,
    bytes: usize,
    /// All commands' bytes; what stands before them in the batch is of any length.
    of_bytes: usize,
    since: Moment,
}

/// A batch on its way to the raft leader.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) bytes: Bytes,
    /// It carries a change of the members that concerns raft.
    pub(crate) is_change: bool,
    /// How many commands it holds.
    pub(crate) commands: usize,
}

impl Writes {
    pub(crate) fn new(me: MemberId, boot: u64) -> Writes {
        Writes {
            me,
            boot,
            last_sequence: 0,
            session: Waiting::new(SESSION_WAITING_MAX),
            ordinary: Waiting::new(ORDINARY_WAITING_MAX),
            sent: VecDeque::new(),
            gather: Gather::default(),
        }
    }

    /// Takes a command in.
    pub(crate) fn push(
        &mut self,
        now: Moment,
        waiter: Waiter,
        command: &Command,
    ) -> Result<(), Failure> {
        match command.lane() {
            Lane::Session => self.session.push(now, waiter, command),
            Lane::Ordinary => self.ordinary.push(now, waiter, command),
        }
    }

    /// The next batch to send, if one may go. The sessions' commands are in front; others fill it up, unless it is
    /// not their time yet.
    pub(crate) fn next_batch(&mut self, now: Moment) -> Option<Sealed> {
        let is_time = self.is_time(now);
        if !is_time && !self.is_urgent() {
            return None;
        }
        let mut front = None;
        let open = match self.session.pop() {
            None => self.ordinary.pop()?,
            Some(mut open) => {
                let room = is_time && self.sent_commands() < SENT_COMMANDS_MAX && !open.is_full();
                if let Some(more) = room.then(|| self.ordinary.pop()).flatten() {
                    front = Some(Front {
                        commands: open.waiters.len(),
                        bytes: open.commands.len(),
                        of_bytes: open.commands.len() + more.commands.len(),
                        since: open.since,
                    });
                    open.append(more);
                }
                open
            }
        };
        self.last_sequence += 1;
        if is_time {
            self.gather.went(open.waiters.len());
        }
        let bytes = self.seal(self.last_sequence, open.waiters.len(), &open.commands);
        let commands = open.waiters.len();
        self.sent.push_back(Sent {
            sequence: self.last_sequence,
            bytes: bytes.clone(),
            waiters: open.waiters,
            since: open.since,
            front,
            sent_at: now,
            is_change: open.is_change,
            is_early: !is_time,
        });
        Some(Sealed { bytes, is_change: open.is_change, commands })
    }

    /// Whether it is time for what waits, whatever that is.
    fn is_time(&self, now: Moment) -> bool {
        let Some(since) = self.waiting_since() else { return false };
        let count = self.session.commands + self.ordinary.commands;
        let may_go = match self.last_timely() {
            None => self.gather.is_complete(count, since, now),
            Some(last) => now.since(last.sent_at) >= PIPELINE_AFTER,
        };
        may_go && self.may_follow()
    }

    /// The last batch under way that went when it was time.
    fn last_timely(&self) -> Option<&Sent> {
        self.sent.iter().rev().find(|sent| !sent.is_early)
    }

    /// Whether something waits that does not wait for its time.
    fn is_urgent(&self) -> bool {
        self.session.first().is_some_and(|open| open.is_urgent) && self.sent.len() < SENT_MAX
    }

    /// Whether there is room for one more batch beside those under way.
    fn may_follow(&self) -> bool {
        let room = self.session.first().is_some() || self.sent_commands() < SENT_COMMANDS_MAX;
        room && self.sent.len() < SENT_MAX
    }

    fn waiting_since(&self) -> Option<Moment> {
        self.session.first().into_iter().chain(self.ordinary.first()).map(|open| open.since).min()
    }

    fn sent_commands(&self) -> usize {
        self.sent.iter().map(|sent| sent.waiters.len()).sum()
    }

    fn seal(&self, sequence: u64, count: usize, commands: &[u8]) -> Bytes {
        let mut bytes = Vec::with_capacity(commands.len() + 32);
        encode_batch_head(&mut bytes, self.me, self.boot, sequence, count);
        bytes.extend_from_slice(commands);
        bytes.into()
    }

    /// Everything under way, to be sent again in order.
    pub(crate) fn resend(&mut self, now: Moment) -> Vec<Sealed> {
        for sent in &mut self.sent {
            sent.sent_at = now;
        }
        let sealed = |sent: &Sent| Sealed {
            bytes: sent.bytes.clone(),
            is_change: sent.is_change,
            commands: sent.waiters.len(),
        };
        self.sent.iter().map(sealed).collect()
    }

    /// When the oldest batch under way was last sent.
    pub(crate) fn oldest_sent_at(&self) -> Option<Moment> {
        self.sent.front().map(|sent| sent.sent_at)
    }

    /// A batch of this member was applied: who waits for its outcomes, in order, and since when.
    pub(crate) fn applied(
        &mut self,
        now: Moment,
        boot: u64,
        sequence: u64,
    ) -> Option<(Vec<Waiter>, Moment)> {
        if boot != self.boot || self.sent.front().map(|sent| sent.sequence) != Some(sequence) {
            return None;
        }
        let sent = self.sent.pop_front()?;
        self.gather.came_back(now.since(sent.sent_at));
        Some((sent.waiters, sent.since))
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
        for lane in [&mut self.session, &mut self.ordinary] {
            while let Some(open) = lane.pop_if(|open| open.since <= before) {
                given_up.extend(open.waiters);
            }
        }
        given_up
    }

    /// Nobody waits any longer for what came before `before`. The batches' numbers must still be used
    /// up, but what was not applied by now is taken out of them: a write must not appear long after its
    /// client was told that it may have failed.
    pub(crate) fn give_up_sent(&mut self, before: Moment) -> Vec<Waiter> {
        let mut given_up = Vec::new();
        for index in 0..self.sent.len() {
            let sent = &mut self.sent[index];
            if sent.since > before || sent.waiters.is_empty() {
                continue;
            }
            let front = sent.front.take().filter(|front| front.since > before);
            let kept = front.map_or(0, |front| front.commands);
            given_up.extend(sent.waiters.drain(kept..));
            sent.is_change = false;
            let commands = front.map_or(Bytes::new(), |front| {
                sent.since = front.since;
                let head = sent.bytes.len() - front.of_bytes;
                sent.bytes.slice(head..head + front.bytes)
            });
            let sequence = sent.sequence;
            self.sent[index].bytes = self.seal(sequence, kept, &commands);
        }
        given_up
    }

    /// When a batch that waits may go without more company, or although another is under way.
    pub(crate) fn next_send(&self) -> Option<Moment> {
        let since = self.waiting_since()?;
        let at = match self.last_timely() {
            None => self.gather.ends_at(since),
            Some(last) => last.sent_at + PIPELINE_AFTER,
        };
        self.may_follow().then_some(at)
    }

    /// How many requests wait for their outcome.
    pub(crate) fn pending(&self) -> usize {
        self.session.commands + self.ordinary.commands + self.sent_commands()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting_since().is_none() && self.sent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use tenure_api::{LeaseId, Put, op::PutLease};

    use super::*;
    use crate::command::Batch;

    fn put() -> Command {
        let lease = PutLease::Set(None);
        Command::Put(Put { key: "k".into(), value: Some("v".into()), lease, prev_kv: false })
    }

    fn renewal() -> Command {
        Command::LeaseRenew(LeaseId(7))
    }

    fn overloaded() -> Writes {
        let mut writes = Writes::new(MemberId(1), 1);
        while writes.push(Moment::ZERO, Some(0), &put()).is_ok() {}
        writes
    }

    #[test]
    fn a_renewal_is_taken_when_no_put_is_and_goes_first() {
        let mut writes = overloaded();
        assert_eq!(writes.push(Moment::ZERO, Some(1), &put()), Err(Failure::TooManyRequests));
        writes.push(Moment::ZERO, Some(2), &renewal()).unwrap();
        let batch = writes.next_batch(Moment::ZERO).expect("nothing is under way");
        let batch = Batch::from_bytes(&batch.bytes).unwrap();
        assert_eq!(batch.commands[0], renewal());
        assert!(batch.commands.len() > 1, "others fill it up");
    }

    #[test]
    fn only_renewals_may_follow_when_enough_is_under_way() {
        let mut writes = overloaded();
        let mut now = Moment::ZERO;
        let mut sent = 0;
        while let Some(batch) = writes.next_batch(now) {
            sent += Batch::from_bytes(&batch.bytes).unwrap().commands.len();
            now = now + PIPELINE_AFTER;
        }
        assert_eq!(sent, SENT_COMMANDS_MAX);
        assert_eq!(writes.next_send(), None);
        writes.push(now, Some(2), &renewal()).unwrap();
        let batch = writes.next_batch(now).expect("a renewal does not wait for puts");
        assert_eq!(Batch::from_bytes(&batch.bytes).unwrap().commands, [renewal()]);
    }

    #[test]
    fn puts_are_not_held_up_by_those_who_go_before_their_time() {
        let leaves = Command::LeaseRevoke(LeaseId(7));
        let mut writes = Writes::new(MemberId(1), 1);
        let mut now = Moment::ZERO;
        let take = |writes: &mut Writes, now, command: &Command| {
            writes.push(now, Some(0), command).unwrap();
            writes.next_batch(now).map(|batch| batch.commands)
        };
        assert_eq!(take(&mut writes, now, &put()), Some(1));
        assert_eq!(take(&mut writes, now, &put()), None, "one is under way");
        for step in 1..SENT_MAX {
            now = now + PIPELINE_AFTER / 4;
            let rides_along = step == 4;
            let commands = if rides_along { 2 } else { 1 };
            assert_eq!(take(&mut writes, now, &leaves), Some(commands), "step {step}");
        }
        assert_eq!(take(&mut writes, now, &leaves), None, "so many may be under way");
    }

    #[test]
    fn a_renewal_is_not_given_up_along_with_a_put_that_had_to_wait() {
        let mut writes = Writes::new(MemberId(1), 1);
        let late = Moment::ZERO + Duration::from_secs(5);
        writes.push(Moment::ZERO, Some(1), &put()).unwrap();
        writes.push(late, Some(2), &renewal()).unwrap();
        let batch = writes.next_batch(late).expect("nothing is under way");
        assert_eq!(Batch::from_bytes(&batch.bytes).unwrap().commands, [renewal(), put()]);

        assert_eq!(writes.give_up_sent(Moment::ZERO), [Some(1)]);
        let again = writes.resend(late).pop().expect("its number must be used up");
        assert_eq!(Batch::from_bytes(&again.bytes).unwrap().commands, [renewal()]);
        assert_eq!(again.commands, 1);
        assert_eq!(writes.give_up_sent(Moment::ZERO), []);
        assert_eq!(writes.give_up_sent(late), [Some(2)]);
        let again = writes.resend(late).pop().expect("its number must be used up");
        assert_eq!(Batch::from_bytes(&again.bytes).unwrap().commands, []);
    }
}
