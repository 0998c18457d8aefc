//! Requests: from arrival to their one answer.

use tenure_api::{Failure, LeaseStatus, MemberId, Principal, Proof, Range};

use super::{Replica, budget::Budget};
use crate::{
    Moment,
    auth::Need,
    command::{Command, Lane, PRINCIPALS_SINCE, USERS_SINCE},
    input::{Consistency, Operation, Read, Reply, Request, RequestId},
    message::Message,
    reads::{PendingRead, Wants},
    writes::{Sealed, Waiter},
};

/// From so many keys on, deleted ones that are remembered included, a range over more than one key is not read in the core
/// loop, nor a transaction with such ranges.
const LARGE_STORE_KEYS: usize = 10_000;

impl Replica {
    pub(super) fn request(&mut self, now: Moment, id: RequestId, request: Request) {
        let Request { by, op } = request;
        if self.state.is_corrupt(self.config.me) && !is_about_the_cluster(&op) {
            return self.answer(id, Err(Failure::Corrupt));
        }
        match op {
            Operation::Write(command) => self.write(now, id, by, command),
            Operation::CompactPhysically(revision) => {
                self.upkeep.answer_when_swept(id);
                self.write(now, id, by, Command::Compact(revision));
            }
            Operation::Read(read @ (Read::Range(_) | Read::Txn(_)), Consistency::Serializable) => {
                let wants = Wants::Read(read);
                if !self.reads.push_ready(PendingRead { id, by, wants, since: now }) {
                    self.answer(id, Err(Failure::TooManyRequests));
                }
            }
            Operation::Read(read, Consistency::Serializable) => {
                self.answer_read(now, id, &by, read, &mut Budget::default());
            }
            Operation::Read(read, Consistency::Linearizable) => {
                if self.is_given_up_on(now) {
                    self.counts.reads_failed += 1;
                    return self.answer(id, Err(Failure::NoLeader));
                }
                let wants = Wants::Read(read);
                if !self.reads.push(PendingRead { id, by, wants, since: now }) {
                    self.answer(id, Err(Failure::TooManyRequests));
                }
            }
            Operation::MoveLeader(to) => match self.state.may(&by, &Need::Root) {
                Ok(()) => self.move_leader(now, id, to),
                Err(failure) => self.answer(id, Err(failure)),
            },
        }
    }

    /// Proposes a command. One that its principal may not give is not logged: clients without rights could fill the log. But
    /// the right may have been given at another member, so a refusal waits until this member knows all that was decided
    /// before the request came.
    fn write(&mut self, now: Moment, id: RequestId, by: Principal, command: Command) {
        if self.state.permit(&by, &command).is_ok() {
            return self.propose(now, id, by, command);
        }
        let wants = Wants::Write(Box::new(command));
        let failure = if self.is_given_up_on(now) {
            Failure::NoLeader
        } else if self.reads.push(PendingRead { id, by, wants, since: now }) {
            return;
        } else {
            Failure::TooManyRequests
        };
        self.refuse_write(id, failure);
    }

    fn refuse_write(&mut self, id: RequestId, failure: Failure) {
        self.counts.writes_failed += 1;
        self.upkeep.forget_sweep_waiter(id);
        self.answer(id, Err(failure));
    }

    fn propose(&mut self, now: Moment, id: RequestId, by: Principal, command: Command) {
        // A member that joins would never learn the outcome, and from a member that was removed nothing is taken.
        let is_member = self.state.members.contains_key(&self.config.me);
        let accepted = if !is_member || self.is_given_up_on(now) {
            Err(Failure::NoLeader)
        } else if command.since_version() > self.state.cluster_version {
            Err(Failure::NotCapable)
        } else if let Err(failure) = self.check_room(now, &command) {
            Err(failure)
        } else if self.is_leader() && command.concerns_raft() && self.state.change.is_some() {
            // Known without asking a peer, which matters if none can be asked: the change under way
            // may be the one that waits for a second voter to start.
            Err(Failure::ChangeUnderWay)
        } else if command.lane() == Lane::Ordinary && self.would_wait_in_vain(now) {
            Err(Failure::TooManyRequests)
        } else {
            let by = self.attributed(by);
            self.writes.push(now, Some(id), &by, &command)
        };
        match accepted {
            Ok(()) => self.take_room(id, &command),
            Err(failure) => self.refuse_write(id, failure),
        }
    }

    /// Takes in a command of this member's own.
    pub(super) fn propose_own(&mut self, now: Moment, command: &Command) -> Result<(), Failure> {
        let by = self.attributed(Principal::System);
        self.writes.push(now, None, &by, command)
    }

    /// The principal as every member can read it.
    pub(super) fn attributed(&self, by: Principal) -> Principal {
        let version = self.state.cluster_version;
        match by {
            // Users cannot be enabled then.
            Principal::Unproven | Principal::User { proof: Proof::Held, .. }
                if version < USERS_SINCE =>
            {
                Principal::Anonymous
            }
            _ if version < PRINCIPALS_SINCE => Principal::Anonymous,
            by => by,
        }
    }

    /// Whether so much waits that a new request would most likely be given up on. Better to know at once that nothing was done
    /// than not to know after a long wait. Never so without a raft leader: other checks decide then.
    fn would_wait_in_vain(&self, now: Moment) -> bool {
        let patience = self.config.request_timeout / 2;
        // How long others waited says little where few wait: it may have been for a raft leader.
        let is_overdue = self.writes.is_behind() && self.writes.wait(now) > patience;
        is_overdue && self.raft.leader().is_some()
    }

    /// Whether there has been no raft leader for so long that waiting for one makes no sense.
    fn is_given_up_on(&self, now: Moment) -> bool {
        self.leadership
            .vacant_since()
            .is_some_and(|since| now.since(since) > self.config.leaderless_patience())
    }

    /// Sends this member's batches to the raft leader.
    pub(super) fn send_batches(&mut self, now: Moment) {
        let Some(leader) = self.raft.leader() else { return };
        if self.writes.are_stuck(now, self.config.election_timeout) {
            let batches = self.writes.resend(now);
            batches.into_iter().for_each(|batch| self.send_batch(leader, batch));
        }
        while let Some(batch) = self.writes.next_batch(now) {
            self.send_batch(leader, batch);
        }
        if self.is_leader() {
            self.propose_change(now);
            let clock = self.entry_clock(now);
            let raft = &mut self.raft;
            let propose = |data| raft.propose(data).then(|| raft.last_index());
            self.proposals.propose_next(now, clock, propose);
        }
    }

    /// A new raft leader may not have seen what was sent to the old one.
    pub(super) fn resend_batches(&mut self, now: Moment) {
        let Some(leader) = self.raft.leader() else { return };
        for batch in self.writes.resend_anew(now) {
            self.send_batch(leader, batch);
        }
    }

    fn send_batch(&mut self, leader: MemberId, batch: Sealed) {
        if leader == self.config.me {
            self.proposals.push(batch);
        } else {
            self.effects.messages.push((leader, Message::Forward(batch.bytes)));
        }
    }

    /// Not before an entry of the raft leader's term is applied: earlier it would drop the round
    /// without a word, and we would wait for nothing until it counts as lost.
    pub(super) fn reads_to_start(&mut self, now: Moment) -> Option<Vec<u8>> {
        self.raft.leader().filter(|_| self.applied.1 == self.raft.term())?;
        let is_asking = self.reads.is_asking();
        let lost_after = self.config.pipeline.read_round_heartbeats * self.config.heartbeat;
        let round = self.reads.start_round(now, lost_after);
        self.counts.read_rounds_lost += u64::from(is_asking && round.is_some());
        if canary!(ReadUnasked)
            && self.raft.role() == crate::RaftRole::Leader
            && let Some(context) = &round
        {
            self.reads.confirm(context, self.applied.0);
            return None;
        }
        round
    }

    /// Answers what can be answered, and enough for one call. True if there is more.
    pub(super) fn answer_reads(&mut self, now: Moment) -> bool {
        let mut budget = Budget::default();
        while !budget.is_enough() {
            let Some(ready) = self.reads.next_ready(self.applied.0) else { return false };
            match ready.wants {
                Wants::Read(read) => {
                    self.answer_read(now, ready.id, &ready.by, read, &mut budget);
                }
                Wants::Write(command) => match self.state.permit(&ready.by, &command) {
                    Ok(()) => self.propose(now, ready.id, ready.by, *command),
                    Err(failure) => self.refuse_write(ready.id, failure),
                },
            }
        }
        self.reads.is_ready(self.applied.0)
    }

    fn answer_read(
        &mut self,
        now: Moment,
        id: RequestId,
        by: &Principal,
        read: Read,
        budget: &mut Budget,
    ) {
        budget.begin_read(&read, self.state.store.history_len());
        let permitted = self.state.permit_read(by, &read);
        let result = permitted.and_then(|()| self.read(now, by, read));
        budget.answered(&result);
        if let Ok(reply) = &result {
            self.count_read(reply);
        }
        self.answer(id, result);
    }

    fn read(&self, now: Moment, by: &Principal, read: Read) -> Result<Reply, Failure> {
        let state = &self.state;
        Ok(match read {
            Read::Range(range) if self.is_large(&range) => {
                Reply::LargeRange(state.store.clone(), range)
            }
            Read::Range(range) => Reply::Range(state.store.range(&range)?),
            Read::Txn(txn) if self.is_large_store() && txn.is_wide() => {
                Reply::LargeTxn(state.store.clone(), txn)
            }
            Read::Txn(txn) => Reply::Txn(state.store.read_txn(&txn)?),
            Read::Lease(id, keys) => Reply::Lease(self.lease_status(now, id, keys)),
            Read::Leases => Reply::Leases(state.leases.iter().map(|(id, _)| id).collect()),
            Read::LeaseTimes(ids) => {
                Reply::LeaseTimes(ids.iter().map(|id| self.lease_times(now, *id)).collect())
            }
            Read::Alarms => Reply::Alarms(state.alarms.iter().copied().collect()),
            Read::Progress => Reply::Progress(self.raft.peer_progress()),
            Read::Members => Reply::Members(state.members()),
            Read::Leader(name) => Reply::Leader(self.leader_of(&name)),
            Read::Election(name) => Reply::Election(Box::new(self.election_view(&name, now))),
            Read::Elections(prefix, most) => {
                let elections = self.election_summaries(&prefix, most);
                Reply::Elections(elections, state.elections.session_count())
            }
            Read::Sessions => Reply::Sessions(Box::new(self.sessions_view(by, now))),
            Read::Auth(read) => Reply::Auth(state.auth.read(&read)?),
            Read::Freshness | Read::Judged(_) => Reply::Done,
            Read::Store => Reply::Store(state.store.clone()),
            Read::State => Reply::State(Box::new(self.snapshot())),
        })
    }

    fn is_large(&self, range: &Range) -> bool {
        range.span.is_wide() && self.is_large_store()
    }

    fn is_large_store(&self) -> bool {
        self.state.store.history_len() > LARGE_STORE_KEYS
    }

    /// The time to live of a lease or session, and what is left of it.
    fn lease_times(
        &self,
        now: Moment,
        id: tenure_api::LeaseId,
    ) -> Option<(std::time::Duration, std::time::Duration)> {
        let remaining = self.deadlines.remaining(&id, now)?;
        let ttl_ms = match self.state.elections.session(id) {
            Some(session) => session.ttl_ms,
            None => self.state.leases.get(id)?.ttl_secs.unsigned_abs().saturating_mul(1000),
        };
        Some((std::time::Duration::from_millis(ttl_ms), remaining))
    }

    fn lease_status(
        &self,
        now: Moment,
        id: tenure_api::LeaseId,
        with_keys: bool,
    ) -> Option<LeaseStatus> {
        let lease = self.state.leases.get(id)?;
        let remaining = self.deadlines.remaining(&id, now)?;
        Some(LeaseStatus {
            id,
            remaining_secs: remaining.as_secs() as i64,
            granted_secs: lease.ttl_secs,
            keys: if with_keys { lease.keys.iter().cloned().collect() } else { vec![] },
        })
    }

    /// Answers what has waited too long, or waits for a raft leader that does not come.
    pub(super) fn give_up_requests(&mut self, now: Moment) {
        self.give_up_change(now);
        if self.writes.is_idle() && self.reads.is_idle() {
            return;
        }
        if self.is_given_up_on(now) {
            let open = self.writes.give_up_open(now);
            self.fail_writes(now, open, Failure::NoLeader);
            let sent = self.writes.give_up_sent(now);
            self.fail_writes(now, sent, Failure::TimedOutLeaderFailure);
            let reads = self.reads.give_up(now);
            self.fail_reads(reads, Failure::NoLeader);
        }
        let Some(before) = now.since_start().checked_sub(self.config.request_timeout) else {
            return;
        };
        let before = Moment::after_start(before);
        let mut late = self.writes.give_up_open(before);
        late.extend(self.writes.give_up_sent(before));
        self.fail_writes(now, late, Failure::TimedOut);
        let mut late = self.reads.give_up(before);
        late.extend(self.reads.give_up_ready(before));
        self.fail_reads(late, Failure::TimedOut);
    }

    fn fail_reads(&mut self, reads: Vec<RequestId>, failure: Failure) {
        self.counts.reads_failed += reads.len() as u64;
        self.fail_all(reads, failure);
    }

    /// Commands of this member's own may be among those given up: expiries, which no other member would
    /// ever propose again while it leads.
    fn fail_writes(&mut self, now: Moment, waiters: Vec<Waiter>, failure: Failure) {
        if waiters.contains(&None) {
            self.take_back_expiries(now);
        }
        let clients: Vec<RequestId> = waiters.into_iter().flatten().collect();
        self.counts.writes_failed += clients.len() as u64;
        self.fail_all(clients, failure);
    }

    pub(super) fn fail_all(
        &mut self,
        requests: impl IntoIterator<Item = RequestId>,
        failure: Failure,
    ) {
        for id in requests {
            self.upkeep.forget_sweep_waiter(id);
            self.answer(id, Err(failure));
        }
    }
}

/// A member that differs from the others can still list the members and say that it is alive, lower its
/// alarm and be told to give the leadership away.
fn is_about_the_cluster(op: &Operation) -> bool {
    matches!(
        op,
        Operation::MoveLeader(_)
            | Operation::Write(Command::RaiseAlarm(_) | Command::LowerAlarm(_))
            | Operation::Read(Read::Members | Read::Alarms | Read::Judged(_), _)
            | Operation::Read(Read::Freshness, Consistency::Serializable)
    )
}
