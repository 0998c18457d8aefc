//! Requests that change the state, from their arrival to their one answer.
//!
//! They wait in *open* batches and travel in numbered *sent* batches. One batch is under way at a
//! time while the cluster is fast, so that everything that arrives meanwhile forms the next: that is
//! where the throughput comes from; for the same reason a batch waits a moment for the company it
//! usually has ([`BatchWindow`]). When an answer takes longer (a slow disk or link), more follow
//! without waiting. So does, *early*, what an election may depend on: it gets its company at the raft
//! leader. A sent batch is kept until it is applied, and sent again when the raft leader
//! changes; [`State::admits`](crate::state::State::admits) sees to it that it is applied once.

#[cfg(test)]
mod tests;
mod waiting;

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use tenure_api::{Failure, MemberId, Principal};

use self::waiting::{BATCH_WEIGHT_MAX, Open, Waiting};
use crate::{
    Moment, PipelineLimits,
    batch_window::BatchWindow,
    command::{BatchNumber, Command, Lane, encode_batch_head},
    input::RequestId,
};

/// Batches of this member that may be under way at once.
const SENT_MAX: usize = 8;
/// How many times the wait doubles before batches are sent again. At usual timing that is two seconds at most: a connection
/// that was broken in one direction only comes back unannounced.
const STUCK_MAX: u32 = 2;
/// What commands under way may weigh before only the sessions' may follow; more would only wait at the raft leader, in front
/// of those.
const SENT_WEIGHT_MAX: usize = 2 * BATCH_WEIGHT_MAX;
/// Batches under way before only the sessions' may follow.
const SENT_OTHERS_MAX: usize = SENT_MAX - 2;
/// Commands of a lane that may wait before more are turned away.
const ORDINARY_WAITING_MAX: usize = 20_000;
const LEASED_WAITING_MAX: usize = 50_000;
const SESSION_WAITING_MAX: usize = 200_000;
/// With so many ordinary commands or bytes waiting, more is not read if that can be helped. A member that keeps up has fewer.
const BEHIND_COMMANDS: usize = 2048;
const BEHIND_BYTES: usize = 8 << 20;

/// One member's requests that are not answered yet.
#[derive(Debug)]
pub(crate) struct Writes {
    me: MemberId,
    boot: u64,
    limits: PipelineLimits,
    last_sequence: u64,
    session: Waiting,
    leased: Waiting,
    ordinary: Waiting,
    sent: VecDeque<Sent>,
    /// How often in a row they were sent again.
    stuck: u32,
    /// When one was last applied.
    applied_at: Moment,
    batch_window: BatchWindow,
}

/// The request that waits for a command's outcome. None for commands of the replica itself.
pub(crate) type Waiter = Option<RequestId>;

#[derive(Debug)]
struct Sent {
    sequence: u64,
    bytes: Bytes,
    waiters: Vec<Waiter>,
    /// The same for what it was before parts of it were given up, longest first, with none in the place of those. That
    /// may be in the log already, and is what is applied then.
    before: Vec<Vec<Waiter>>,
    /// What it is made of, by lanes.
    parts: Vec<Part>,
    sent_at: Moment,
    is_change: bool,
    /// It went before its time, and others need not wait for it.
    is_early: bool,
}

/// A lane's commands in a batch. They may be younger than those of another lane by nearly as long as a request may
/// take, and must not be given up along with them.
#[derive(Clone, Copy, Debug)]
struct Part {
    commands: usize,
    weight: usize,
    bytes: usize,
    since: Moment,
}

impl Sent {
    /// Since when the oldest of its commands has been waiting.
    fn since(&self) -> Option<Moment> {
        self.parts.iter().map(|part| part.since).min()
    }

    fn weight(&self) -> usize {
        self.parts.iter().map(|part| part.weight).sum()
    }
}

/// A batch on its way to the raft leader.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) number: BatchNumber,
    pub(crate) bytes: Bytes,
    /// It carries a change of the members that concerns raft.
    pub(crate) is_change: bool,
    /// How many commands it holds.
    pub(crate) commands: usize,
    /// What they weigh.
    pub(crate) weight: usize,
}

impl Writes {
    pub(crate) fn new(me: MemberId, boot: u64, limits: PipelineLimits) -> Writes {
        Writes {
            me,
            boot,
            limits,
            last_sequence: 0,
            session: Waiting::new(SESSION_WAITING_MAX),
            leased: Waiting::new(LEASED_WAITING_MAX),
            ordinary: Waiting::new(ORDINARY_WAITING_MAX),
            sent: VecDeque::new(),
            stuck: 0,
            applied_at: Moment::ZERO,
            batch_window: BatchWindow::default(),
        }
    }

    /// Takes a command in.
    pub(crate) fn push(
        &mut self,
        now: Moment,
        waiter: Waiter,
        by: &Principal,
        command: &Command,
    ) -> Result<(), Failure> {
        match command.lane() {
            Lane::Session => self.session.push(now, waiter, by, command),
            Lane::Leased => self.leased.push(now, waiter, by, command),
            Lane::Ordinary => self.ordinary.push(now, waiter, by, command),
        }
    }

    /// The next batch to send, if one may go. The sessions' commands are in front; others fill it up, unless it is
    /// not their time yet or enough of them is under way.
    pub(crate) fn next_batch(&mut self, now: Moment) -> Option<Sealed> {
        let is_time = self.is_time(now);
        let others_may = self.others_may_follow();
        if !is_time && !self.is_urgent() {
            return None;
        }
        let mut opens: Vec<Open> = Vec::new();
        let lanes = [
            (&mut self.session, true),
            (&mut self.leased, others_may),
            (&mut self.ordinary, others_may && is_time),
        ];
        for (lane, may_go) in lanes {
            if may_go && !opens.last().is_some_and(Open::is_full) {
                opens.extend(lane.send(now));
            }
        }
        if opens.is_empty() {
            return None;
        }
        let is_change = opens.iter().any(|open| open.is_change);
        let parts: Vec<Part> = opens.iter().map(Open::part).collect();
        let commands = parts.iter().map(|part| part.commands).sum();
        let weight = parts.iter().map(|part| part.weight).sum();
        self.last_sequence += 1;
        if is_time {
            self.batch_window.went(commands);
        }
        let bytes = self.seal(self.last_sequence, commands, opens.iter().map(|o| &o.commands[..]));
        let waiters = opens.into_iter().flat_map(|open| open.waiters).collect();
        self.sent.push_back(Sent {
            sequence: self.last_sequence,
            bytes: bytes.clone(),
            waiters,
            before: vec![],
            parts,
            sent_at: now,
            is_change,
            is_early: !is_time,
        });
        let number = self.number(self.last_sequence);
        Some(Sealed { number, bytes, is_change, commands, weight })
    }

    /// Whether it is time for what waits, whatever that is.
    fn is_time(&self, now: Moment) -> bool {
        let Some(since) = self.waiting_since() else { return false };
        let count = self.lanes().map(|lane| lane.commands).sum();
        let may_go = match self.last_timely() {
            None => self.batch_window.is_complete(count, since, now),
            Some(last) => now.since(last.sent_at) >= self.limits.follow_after,
        };
        may_go && self.may_follow()
    }

    /// The last batch under way that went when it was time.
    fn last_timely(&self) -> Option<&Sent> {
        self.sent.iter().rev().find(|sent| !sent.is_early)
    }

    /// Whether something waits that does not wait for its time.
    fn is_urgent(&self) -> bool {
        let is_urgent = |lane: &Waiting| lane.first().is_some_and(|open| open.is_urgent);
        is_urgent(&self.session) && self.sent.len() < SENT_MAX
            || is_urgent(&self.leased) && self.others_may_follow()
    }

    /// Whether there is room for one more batch beside those under way.
    fn may_follow(&self) -> bool {
        let sessions_may = self.session.first().is_some() && self.sent.len() < SENT_MAX;
        sessions_may || self.others_may_follow()
    }

    /// Whether there is, for others than the sessions.
    fn others_may_follow(&self) -> bool {
        self.sent_weight() < SENT_WEIGHT_MAX && self.sent.len() < SENT_OTHERS_MAX
    }

    fn lanes(&self) -> impl Iterator<Item = &Waiting> {
        [&self.session, &self.leased, &self.ordinary].into_iter()
    }

    fn waiting_since(&self) -> Option<Moment> {
        self.lanes().filter_map(|lane| lane.first()).map(|open| open.since).min()
    }

    fn sent_weight(&self) -> usize {
        self.sent.iter().map(Sent::weight).sum()
    }

    fn sent_commands(&self) -> usize {
        self.sent.iter().map(|sent| sent.waiters.len()).sum()
    }

    fn seal<'a>(
        &self,
        sequence: u64,
        count: usize,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Bytes {
        let length: usize = parts.clone().map(<[u8]>::len).sum();
        let mut bytes = Vec::with_capacity(length + 32);
        encode_batch_head(&mut bytes, self.me, self.boot, sequence, count);
        parts.for_each(|part| bytes.extend_from_slice(part));
        bytes.into()
    }

    /// Everything under way, to be sent again in order.
    pub(crate) fn resend(&mut self, now: Moment) -> Vec<Sealed> {
        for sent in &mut self.sent {
            sent.sent_at = now;
        }
        let sealed = |sent: &Sent| Sealed {
            number: self.number(sent.sequence),
            bytes: sent.bytes.clone(),
            is_change: sent.is_change,
            commands: sent.waiters.len(),
            weight: sent.weight(),
        };
        self.sent.iter().map(sealed).collect()
    }

    /// There is a raft leader, or the way to it, that may not have seen what is under way.
    pub(crate) fn resend_anew(&mut self, now: Moment) -> Vec<Sealed> {
        self.stuck = 0;
        self.resend(now)
    }

    fn number(&self, sequence: u64) -> BatchNumber {
        BatchNumber { origin: self.me, boot: self.boot, sequence }
    }

    /// Whether batches are to be sent again because none was applied for so long, or for longer each time that this happens:
    /// where everything is slow, more of it would not make it quicker.
    pub(crate) fn are_stuck(&mut self, now: Moment, patience: Duration) -> bool {
        let waits = self.sent.front().map(|sent| now.since(sent.sent_at.max(self.applied_at)));
        let are_stuck = waits.is_some_and(|waits| waits > patience * (1 << self.stuck));
        if are_stuck {
            self.stuck = (self.stuck + 1).min(STUCK_MAX);
        }
        are_stuck
    }

    /// A batch of this member was applied, with so many commands: the waiters for their outcomes, in order, and since when.
    pub(crate) fn applied(
        &mut self,
        now: Moment,
        boot: u64,
        sequence: u64,
        commands: usize,
    ) -> Option<(Vec<Waiter>, Moment)> {
        if boot != self.boot || self.sent.front().map(|sent| sent.sequence) != Some(sequence) {
            return None;
        }
        let sent = self.sent.pop_front()?;
        self.stuck = 0;
        self.applied_at = now;
        self.batch_window.came_back(now.since(sent.sent_at));
        let since = sent.since().unwrap_or(now);
        // Each time that something was taken out it became shorter, so its length tells which one it is.
        let mut versions = sent.before.into_iter().chain([sent.waiters]);
        let waiters = versions.find(|waiters| waiters.len() == commands);
        Some((waiters.expect("only this member makes its batches"), since))
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
        for lane in [&mut self.session, &mut self.leased, &mut self.ordinary] {
            while let Some(open) = lane.pop_if(|open| open.since <= before) {
                given_up.extend(open.waiters);
            }
        }
        given_up
    }

    /// Gives up waiting for what came before `before`. The batches' numbers must still be used
    /// up, but what was not applied by now is taken out of them: a write must not appear long after its
    /// client was told that it may have failed.
    pub(crate) fn give_up_sent(&mut self, before: Moment) -> Vec<Waiter> {
        let mut given_up = Vec::new();
        for index in 0..self.sent.len() {
            let sent = &mut self.sent[index];
            if sent.parts.iter().all(|part| part.since > before) {
                continue;
            }
            let all: usize = sent.parts.iter().map(|part| part.bytes).sum();
            // What stands before the commands is of any length.
            let mut at = sent.bytes.len() - all;
            let (mut commands, mut kept, mut gone) = (Vec::new(), Vec::new(), Vec::new());
            let whole = std::mem::take(&mut sent.waiters);
            let mut waiters = whole.iter().copied();
            for part in &sent.parts {
                let theirs = waiters.by_ref().take(part.commands);
                if part.since > before {
                    kept.extend(theirs);
                    commands.push(sent.bytes.slice(at..at + part.bytes));
                } else {
                    gone.extend(theirs);
                }
                at += part.bytes;
            }
            sent.before.push(whole);
            for waiter in sent.before.iter_mut().flatten() {
                waiter.take_if(|waiter| gone.contains(&Some(*waiter)));
            }
            given_up.extend(gone);
            sent.parts.retain(|part| part.since > before);
            sent.is_change = false;
            let (sequence, count) = (sent.sequence, kept.len());
            sent.waiters = kept;
            let bytes = self.seal(sequence, count, commands.iter().map(|part| &part[..]));
            self.sent[index].bytes = bytes;
        }
        given_up
    }

    /// When a batch that waits may go without more company, or although another is under way.
    pub(crate) fn next_send(&self) -> Option<Moment> {
        let since = self.waiting_since()?;
        let at = match self.last_timely() {
            None => self.batch_window.ends_at(since),
            Some(last) => last.sent_at + self.limits.follow_after,
        };
        self.may_follow().then_some(at)
    }

    /// How long an ordinary command will wait that comes now.
    pub(crate) fn wait(&self, now: Moment) -> Duration {
        self.ordinary.wait(now)
    }

    /// Whether more ordinary commands wait than will go soon.
    pub(crate) fn is_behind(&self) -> bool {
        self.ordinary.commands >= BEHIND_COMMANDS || self.ordinary.bytes >= BEHIND_BYTES
    }

    /// How many requests wait for their outcome.
    pub(crate) fn pending(&self) -> usize {
        self.lanes().map(|lane| lane.commands).sum::<usize>() + self.sent_commands()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting_since().is_none() && self.sent.is_empty()
    }
}
