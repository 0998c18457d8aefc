//! The host around a replica: calls it, carries out its effects, and hands in the results. It makes no decision
//! of its own, except for planted bugs.

use tenure_disk::DiskError;
use tenure_replica::{
    Answer, Consistency, Effects, Fatal, Input, Message, Moment, Notice, Operation, Outcome,
    RaftMessage, RefusedMessage, Reply, Snapshot, SnapshotMark, canary,
    canary::Canary,
    codec::Codec,
    command::{Batch, Command, MemberChange},
    election::listeners::ListenerEvent,
    watch::WatchNews,
};

use crate::{
    cluster::{
        World,
        disk::{Chunks, from_chunks, is_full, to_chunks},
        event::WorldEvent,
        member::{MemberNumber, MemberProcess, id},
    },
    engine::{ms, us},
    invariants::{
        agreement, durable_commit, durable_term, no_spin, one_answer::OpenRequest, one_membership,
        rights_kept, whole_answers,
    },
};

/// The order in which the server hands in the inputs of one call: from the disk, from peers, from clients.
fn turn_of(input: &Input) -> u8 {
    match input {
        Input::Persisted(_)
        | Input::SnapshotSaved(_)
        | Input::SnapshotFailed
        | Input::Audited(..)
        | Input::AuditFailed => 0,
        Input::Message { .. }
        | Input::SnapshotArrived(..)
        | Input::SnapshotSent(..)
        | Input::Connected(_)
        | Input::Lost(_)
        | Input::Removed => 1,
        Input::Wake
        | Input::Request(..)
        | Input::Watch(_)
        | Input::Election(..)
        | Input::HandOver => 2,
    }
}

impl World {
    /// One round of a member's loop.
    pub(super) fn call(&mut self, number: MemberNumber, life: u64, ticket: u64) {
        let now = self.now();
        let member = self.members.get_mut(&number).expect("only members are called");
        let expected = |process: &&MemberProcess| process.ticket == ticket && process.pauses == 0;
        let Some(process) = member.process.as_ref().filter(expected) else { return };
        if member.life != life {
            return;
        }
        let started = process.started;
        if canary!(ClockRuns) {
            member.clock.drift(now, 1_000_000);
        }
        let local = member.local(now, started);
        let Some(process) = member.process.as_mut() else { return };
        process.called_at = None;
        let count = process.inbox.len().min(self.inputs_max);
        let mut inputs: Vec<Input> = process.inbox.drain(..count).collect();
        let has_more = !process.inbox.is_empty();
        inputs.sort_by_key(turn_of);
        let unasked = inputs.is_empty();
        for input in &inputs {
            if let Input::Message { message: Message::Raft(message), .. } = input {
                self.invariants.read_floor.received(number, message);
            }
        }
        let mut effects = process.replica.handle(local, inputs);
        let removed = effects.fatal == Some(Fatal::Removed);
        assert!(
            effects.fatal.is_none() || removed,
            "member {number} cannot go on: {:?}",
            effects.fatal
        );
        no_spin::check(number, process, (now, unasked), &effects, &mut self.counts);
        for persist in &effects.persist {
            process.log.write(persist);
            let log_matching = &mut self.invariants.log_matching;
            log_matching.check(number, persist, &process.log, &mut self.counts);
        }
        let wake_at = effects.wake_at;
        self.write(number, &mut effects);
        self.learn(number);
        self.trace_state(number);
        self.trace_timer(number);
        self.carry_out(number, effects);
        if removed {
            return self.retire(number);
        }

        let member = &self.members[&number];
        let wake_at = member.global(wake_at, started, now);
        let at = if has_more { now } else { wake_at }.max(now + us(20));
        self.expect_call(number, at);
    }

    /// Compares the member with the agreed log, and extends that with what this member is the first to commit.
    fn learn(&mut self, number: MemberNumber) {
        let now = self.now();
        let process = self.members[&number].process.as_ref().expect("it was just called");
        let status = process.replica.status();
        self.trace.number(status.applied ^ status.term.0 << 32);
        while self.truth.last() < status.committed {
            let process = self.members[&number].process.as_ref().expect("it was just called");
            let Some(entry) = process.log.get(self.truth.last() + 1).cloned() else { break };
            let rolls = self.truth.states_since(process.applied_before);
            durable_commit::check(&entry, rolls, &self.members, &mut self.counts);
            let changes_before = self.truth.changes.len();
            let values = self.truth.learn(now, &entry, status.term, &mut self.counts);
            for (name, token) in self.truth.take_began() {
                self.invariants.tokens_grow.began(&name, token, &mut self.counts);
            }
            self.invariants.written_once.check_entry(&values, &self.truth);
            for change in &self.truth.changes[changes_before..] {
                self.invariants.growth.check_change(change, &mut self.counts);
                self.invariants.one_writer.check(change, &mut self.counts);
            }
            let ended = self.truth.take_ended();
            self.invariants.leases_kept.check(&ended, &self.truth, &mut self.counts);
            let late = self.outage_noticed_within();
            let (truth, counts) = (&self.truth, &mut self.counts);
            self.invariants.leases_survive.check(&ended, late, truth, counts);
            self.start_added_members();
            self.trace_elections();
        }
        let member = self.members.get_mut(&number).expect("only members are called");
        let life = member.life;
        let process = member.process.as_mut().expect("it was just called");
        let moved =
            std::mem::replace(&mut process.applied_before, status.applied) != status.applied;
        self.invariants.one_leader.check(number, &status, &mut self.counts);
        let (truth, counts) = (&self.truth, &mut self.counts);
        self.invariants.leader_completeness.check(number, process, &status, truth, counts);
        one_membership::check_leader(number, &status, &self.truth);
        if moved {
            one_membership::check(number, &process.replica, &status, &mut self.counts);
        }
        self.invariants.growth.check_member((number, life), &status);
        agreement::check_log(number, process, &status, &self.truth);
        if moved {
            let (dice, counts) = (&mut self.dice, &mut self.counts);
            agreement::check_state(number, process, &status, &self.truth, dice, counts);
        }
    }

    fn carry_out(&mut self, number: MemberNumber, effects: Effects) {
        let now = self.now();
        for notice in effects.notices {
            self.trace_notice(number, &notice);
            let honest = self.rotten.is_empty();
            assert!(
                !(honest && matches!(notice, Notice::Differs { .. })),
                "audit: m{number} finds a difference where there is none: {notice:?}"
            );
            // One that was removed may not know it yet.
            let is_refused = |why: &RefusedMessage| *why != RefusedMessage::NotMember;
            assert!(
                !(honest
                    && !Canary::any_is_planted()
                    && matches!(&notice, Notice::MessageRefused(_, why) if is_refused(why))),
                "sound_messages: m{number} refuses what a sound member said: {notice:?}"
            );
            if let Notice::SnapshotInstalled(_) = &notice {
                self.counts.count("snapshot_installed");
                // A member that joins accepts connections of all others until it has the list of members.
                for removed in self.numbers() {
                    if self.has_let_go(number, removed) {
                        let delay = self.dice.duration(us(100), ms(300));
                        self.agenda.after(delay, WorldEvent::Dismiss(number, removed));
                    }
                }
            }
            if let Notice::ChangeDone(MemberChange::Remove(removed)) = &notice
                && removed.0 != number
            {
                let delay = self.dice.duration(us(100), ms(300));
                self.agenda.after(delay, WorldEvent::Dismiss(number, removed.0));
            }
            self.notices.push((now, number, notice));
        }
        for (to, message) in effects.messages {
            self.send(number, to.0, message);
        }
        for (listener, news) in effects.elections {
            self.deliver_election_event(number, listener, &news);
        }
        for answer in effects.answers {
            self.answered(number, answer);
        }
        for news in effects.watch {
            self.deliver_watch_event(number, news);
        }
        for (message, snapshot) in effects.send_snapshots {
            self.send_snapshot(number, message, &snapshot);
        }
        if let Some((index, state)) = effects.audit {
            self.counts.count("audited");
            // A rotten member differs in its state only.
            let digest = state.digest() ^ u64::from(self.rotten.contains(&number));
            let delay = self.dice.duration(us(300), ms(30));
            let (life, input) =
                (self.members[&number].life, Box::new(Input::Audited(index, digest)));
            self.agenda.after(delay, WorldEvent::Arrive { to: number, life, input });
        }
        if let Some(mut snapshot) = effects.take_snapshot {
            if canary!(MarkForgetsChange) {
                snapshot.mark.outgoing.clear();
            }
            self.counts.count("snapshot_taken");
            self.trace_snapshot(number, "taken", snapshot.mark.index);
            let delay = self.dice.duration(us(300), ms(30));
            let good = !self.dice.chance(self.snapshot_failures);
            let (life, snapshot) = (self.members[&number].life, Box::new(snapshot));
            let what = WorldEvent::SnapshotWritten { member: number, life, snapshot, good };
            self.agenda.after(delay, what);
        }
    }

    fn send(&mut self, from: MemberNumber, to: MemberNumber, message: Message) {
        let now = self.now();
        let (dice, counts) = (&mut self.dice, &mut self.counts);
        let arrivals = self.net.arrivals(now, from, to, dice, counts);
        self.trace_send(from, to, &message, &arrivals);
        if let Message::Raft(message) = &message {
            let durable = self.members[&from].disk.durable_term();
            durable_term::check_message(from, message, durable, &mut self.counts);
            self.invariants.read_floor.sent(from, message, &mut self.counts);
            if &message.context[..] == b"vouch" {
                self.counts.count("vouched");
            }
        }
        let lives = (self.members[&from].life, self.members[&to].life);
        if !self.net.carries((from, lives.0), (to, lives.1)) {
            return;
        }
        if canary!(ForwardedTwice)
            && let Message::Forward(bytes) = &message
        {
            let mut batch = Batch::from_bytes(bytes).expect("members forward what can be read");
            batch.sequence += 1;
            let twice = Message::Forward(batch.to_bytes().into());
            self.deliver(now + ms(1), from, to, &twice);
        }
        for at in arrivals {
            self.deliver(at, from, to, &message);
        }
    }

    fn deliver(&mut self, at: Moment, from: MemberNumber, to: MemberNumber, message: &Message) {
        let travelled =
            Message::from_bytes(&message.to_bytes()).expect("what was sent can be read");
        // The moment is set when it arrives, by the receiver's clock.
        let (message, arrived) = (travelled, Moment::ZERO);
        let input = Box::new(Input::Message { from: id(from), message, arrived });
        let life = self.members[&to].life;
        self.agenda.at(at, WorldEvent::Arrive { to, life, input });
    }

    fn answered(&mut self, number: MemberNumber, mut answer: Answer) {
        if canary!(DeletionMiscounted)
            && let Ok(Reply::Wrote(Outcome::DeleteRange(result))) = &mut answer.result
        {
            result.deleted += 1;
        }
        if canary!(AnswerSwallowed) && self.dice.chance(5) {
            return;
        }
        durable_term::check_answer(number, answer.term, self.members[&number].disk.durable_term());
        let open = self.invariants.one_answer.answer(number, answer.to, &mut self.counts);
        if canary!(AnsweredTwice) && self.dice.chance(5) {
            self.invariants.one_answer.answer(number, answer.to, &mut self.counts);
        }
        self.trace_answer(number, &open, &answer);
        let patience = self.members[&number].config.request_timeout + ms(300);
        if self.counts.of("paused") == 0 {
            self.invariants.one_answer.check_wait(&open, self.agenda.now(), patience);
        }
        let (truth, counts) = (&self.truth, &mut self.counts);
        self.invariants.written_once.check_answer(&open, &answer, truth, counts);
        self.invariants.linearizable.check(&open, &answer, truth, counts);
        whole_answers::check(&open, &answer, truth, counts);
        if let (Operation::Read(..), Some(process)) =
            (&open.request, &self.members[&number].process)
        {
            // Nothing is applied after a read in the same call.
            let auth = &process.replica.state().auth;
            rights_kept::check(&open.by, &open.request, &answer.result, auth, counts);
        }
        self.note_lease(&open, &answer);
        self.with_client(open.client, |client, me, world| {
            client.answered(me, world, &open, &answer);
        });
    }

    fn note_lease(&mut self, open: &OpenRequest, answer: &Answer) {
        match (&open.request, &answer.result) {
            (_, Ok(Reply::Wrote(Outcome::Lease(lease)))) => {
                let Some(ttl) = self.truth.leases.get(&lease.id).map(|history| history.ttl) else {
                    return;
                };
                let kept = &mut self.invariants.leases_kept;
                kept.acknowledged(lease.id, open.sent, ttl, &self.truth);
            }
            (
                Operation::Write(
                    Command::LeaseRevoke(lease) | Command::LeaseEndUnused { id: lease, .. },
                ),
                Ok(_),
            ) => self.invariants.leases_kept.forget(*lease),
            _ => {}
        }
    }

    fn deliver_election_event(
        &mut self,
        number: MemberNumber,
        listener: u64,
        news: &ListenerEvent,
    ) {
        self.trace_election_news(number, listener, news);
        let Some((client, at)) = self.streams.get(&listener).copied() else { return };
        assert_eq!(at, number, "a listener is told by another member than its own");
        self.with_client(client, |client, me, world| {
            client.election_news(me, world, listener, news)
        });
    }

    fn deliver_watch_event(&mut self, number: MemberNumber, news: WatchNews) {
        if canary!(NewsLost) && matches!(news, WatchNews::Events { .. }) && self.dice.chance(20) {
            return;
        }
        let streams: Vec<u64> = match &news {
            WatchNews::Created { to, .. } | WatchNews::Cancelled { to, .. } => vec![to.stream],
            WatchNews::Refused { stream, .. } | WatchNews::Progress { stream, .. } => vec![*stream],
            WatchNews::Events { to, .. } => {
                let mut streams: Vec<_> = to.iter().map(|told| told.stream).collect();
                streams.sort_unstable();
                streams.dedup();
                streams
            }
        };
        for stream in streams {
            let Some((client, at)) = self.streams.get(&stream).copied() else { continue };
            assert_eq!(at, number, "a stream is told by another member than its own");
            self.trace_watch_news(number, (client, stream), &news);
            self.with_client(client, |client, me, world| {
                client.watch_news(me, world, stream, &news)
            });
        }
    }

    fn write(&mut self, number: MemberNumber, effects: &mut Effects) {
        let lies = canary!(DiskLies);
        let member = self.members.get_mut(&number).expect("only members write");
        let life = member.life;
        let was_waiting = !member.disk.submitted().is_empty();
        let mut early = vec![];
        for persist in std::mem::take(&mut effects.persist) {
            self.truth.logged(self.agenda.now(), &persist.entries);
            if lies || was_waiting && canary!(DiskAcknowledgesOutOfOrder) {
                early.push(persist.number);
            }
            member.disk.submit(persist);
        }
        for number_written in early {
            self.arrive(number, life, Input::Persisted(number_written));
        }
        self.write_on(number);
    }

    /// Begins the next flush if the disk is free.
    pub(super) fn write_on(&mut self, number: MemberNumber) {
        let member = self.members.get_mut(&number).expect("only members write");
        if let Some(delay) = member.flush(&mut self.dice) {
            let life = member.life;
            self.agenda.after(delay, WorldEvent::Flushed { member: number, life });
        }
    }

    pub(super) fn flushed(&mut self, number: MemberNumber, life: u64) {
        let member = self.members.get_mut(&number).expect("only members write");
        if member.life != life || member.process.is_none() {
            return;
        }
        if member.disk.stalls > 0 {
            self.agenda.after(ms(1), WorldEvent::Flushed { member: number, life });
            return;
        }
        let written = match member.disk.flushed() {
            Ok(written) => written,
            Err(error) => return self.flush_failed(number, &error),
        };
        let each = self.dice.chance(300);
        let last = written.last().copied();
        for number_written in written {
            if each || Some(number_written) == last {
                self.arrive(number, life, Input::Persisted(number_written));
            }
        }
        self.write_on(number);
    }

    /// After a failed flush the content of the disk is unknown: the process ends, and nothing of that flush is ever
    /// acknowledged. The member restarts when the disk was replaced or has room.
    pub(super) fn flush_failed(&mut self, number: MemberNumber, error: &DiskError) {
        let what = match error {
            error if is_full(error) => "disk_full",
            _ if self.members[&number].disk.device.is_off() => "power_fails",
            _ => "disk_failed",
        };
        // A full disk restarts when there is room, a broken one after its replacement.
        if !is_full(error) {
            let delay = self.dice.duration(ms(50), ms(1000));
            self.agenda.after(delay, WorldEvent::Start(number));
        }
        self.member_mut(number).disk.fails = false;
        self.counts.count(what);
        self.trace_of(number, "say", || format!("cannot write and stops: {error}"));
        self.crash(number);
    }

    pub(super) fn snapshot_written(
        &mut self,
        number: MemberNumber,
        life: u64,
        snapshot: &Snapshot,
        good: bool,
    ) {
        let member = self.members.get_mut(&number).expect("only members write");
        if member.life != life || member.process.is_none() {
            return;
        }
        let saved = good
            && match member.disk.save(snapshot.mark.clone(), &to_chunks(snapshot)) {
                Ok(()) => true,
                Err(error) if is_full(&error) => {
                    self.counts.count("disk_full");
                    false
                }
                Err(error) => return self.flush_failed(number, &error),
            };
        let member = self.members.get_mut(&number).expect("only members write");
        if saved && let Err(error) = member.disk.release(snapshot.mark.index) {
            return self.flush_failed(number, &error);
        }
        let (input, step) = if saved {
            (Input::SnapshotSaved(snapshot.mark.clone()), "saved")
        } else {
            self.counts.count("snapshot_failure");
            (Input::SnapshotFailed, "failed")
        };
        self.trace_snapshot(number, step, snapshot.mark.index);
        self.arrive(number, life, input);
    }

    fn send_snapshot(&mut self, from: MemberNumber, mut message: RaftMessage, snapshot: &Snapshot) {
        if let Some(mark) = &mut message.snapshot
            && canary!(MarkForgetsChange)
        {
            mark.outgoing.clear();
        }
        let durable = self.members[&from].disk.durable_term();
        durable_term::check_message(from, &message, durable, &mut self.counts);
        let to = message.to.0;
        let lives = (self.members[&from].life, self.members[&to].life);
        self.counts.count("snapshot_sent");
        let delay =
            self.dice.duration(us(500), ms(40)) + self.net.links.delay(from, to, &mut self.dice);
        self.trace_snapshot_sent(from, &message, self.now() + delay);
        let (from, to) = ((from, lives.0), (to, lives.1));
        let (message, chunks) = (Box::new(message), to_chunks(snapshot));
        self.agenda.after(delay, WorldEvent::SnapshotCame { from, to, message, chunks });
    }

    pub(super) fn snapshot_came(
        &mut self,
        from: (MemberNumber, u64),
        to: (MemberNumber, u64),
        message: RaftMessage,
        mut chunks: Chunks,
    ) {
        let mark = message.snapshot.clone().expect("only snapshots travel this way");
        // A snapshot has a connection of its own.
        let lives = |(number, life): (MemberNumber, u64)| {
            let member = &self.members[&number];
            member.life == life && member.process.is_some()
        };
        let is_cut =
            |(a, _): (MemberNumber, u64), (b, _): (MemberNumber, u64)| self.net.links.is_cut(a, b);
        let passes = lives(from) && lives(to) && !is_cut(from, to) && !is_cut(to, from);
        let conditions = self.net.links.conditions_of(from.0, to.0);
        let lost = self.dice.chance(conditions.loss);
        if canary!(SnapshotMislabelled)
            && let Some(sender) = &self.members[&from.0].process
        {
            let state = sender.replica.state().clone();
            chunks = to_chunks(&Snapshot { mark: mark.clone(), state });
        }
        let good = passes && !lost && self.store_snapshot(to.0, &mark, &chunks);
        self.trace_snapshot_came((from.0, to.0), &mark, good);
        self.arrive(from.0, from.1, Input::SnapshotSent(id(to.0), good));
        if !good {
            self.counts.count("snapshot_lost");
            return;
        }
        let state = Box::new(from_chunks(&chunks));
        if self.dice.chance(conditions.duplicates) {
            // A sender that gave up too early sends it again.
            self.counts.count("snapshot_again");
            let delay = self.dice.duration(us(100), ms(300));
            self.trace_snapshot_sent(from.0, &message, self.now() + delay);
            let message = Box::new(message.clone());
            self.agenda.after(delay, WorldEvent::SnapshotCame { from, to, message, chunks });
        }
        self.arrive(to.0, to.1, Input::SnapshotArrived(message, state));
    }

    /// Saves a received snapshot to the disk before it is read. False if that fails.
    fn store_snapshot(
        &mut self,
        number: MemberNumber,
        mark: &SnapshotMark,
        chunks: &Chunks,
    ) -> bool {
        let receiver = self.members.get_mut(&number).expect("only members receive");
        match receiver.disk.save(mark.clone(), chunks) {
            Ok(()) => return true,
            Err(error) if is_full(&error) => self.counts.count("disk_full"),
            Err(error) => self.flush_failed(number, &error),
        }
        false
    }

    pub(super) fn maybe_stale(&self, request: Operation) -> Operation {
        match request {
            Operation::Read(read, Consistency::Linearizable) if canary!(StaleReads) => {
                Operation::Read(read, Consistency::Serializable)
            }
            request => request,
        }
    }
}
