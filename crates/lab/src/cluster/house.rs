//! What the server does around a machine: call it, carry out what it asks for, hand in what came of
//! it. Thin on purpose: no decision is made here, except for planted bugs.

use tenure_replica::{
    Answer, Consistency, Effects, Fatal, Frozen, Input, Message, Moment, Notice, Outcome,
    RaftMessage, Reply, Request,
    codec::Codec,
    command::{Batch, Command, MemberChange},
    queue::listeners::LineNews,
    watch::WatchNews,
};

use crate::{
    cluster::{
        World,
        canary::Canary,
        disk::{Chunks, freeze, thaw},
        happening::Happening,
        member::{Number, Process, id},
    },
    engine::{ms, us},
    invariants::{agreement, durable_commit, no_spin, one_answer::Open, one_roll},
};

impl World {
    /// One round of a member's loop.
    pub(super) fn call(&mut self, number: Number, life: u64, ticket: u64) {
        let now = self.now();
        let member = self.members.get_mut(&number).expect("only members are called");
        let expected = |process: &&Process| process.ticket == ticket && process.pauses == 0;
        let Some(process) = member.process.as_ref().filter(expected) else { return };
        if member.life != life {
            return;
        }
        let started = process.started;
        if self.canary == Some(Canary::ClockRuns) {
            member.clock.drift(now, 1_000_000);
        }
        let local = member.local(now, started);
        let Some(process) = member.process.as_mut() else { return };
        process.called_at = None;
        let inputs = std::mem::take(&mut process.inbox);
        let unasked = inputs.is_empty();
        let mut effects = process.replica.handle(local, inputs);
        let removed = effects.fatal == Some(Fatal::Removed);
        assert!(
            effects.fatal.is_none() || removed,
            "member {number} cannot go on: {:?}",
            effects.fatal
        );
        no_spin::judge(number, process, (now, unasked), &effects, &mut self.counts);
        for persist in &effects.persist {
            process.log.write(persist);
            let log_matching = &mut self.invariants.log_matching;
            log_matching.judge(number, persist, &process.log, &mut self.counts);
        }
        let wake_at = effects.wake_at;
        self.write(number, &mut effects);
        self.learn(number);
        self.tell_state(number);
        self.tell_timer(number);
        self.carry_out(number, effects);
        if removed {
            return self.retire(number);
        }

        let member = &self.members[&number];
        let at = member.global(wake_at, started, now).max(now + us(20));
        self.expect_call(number, at);
    }

    /// Holds the member against what is agreed on, and adds to that what it is the first to commit.
    fn learn(&mut self, number: Number) {
        let now = self.now();
        let process = self.members[&number].process.as_ref().expect("it was just called");
        let status = process.replica.status();
        self.trace.number(status.applied ^ status.term.0 << 32);
        while self.truth.last() < status.committed {
            let process = self.members[&number].process.as_ref().expect("it was just called");
            let Some(entry) = process.log.get(self.truth.last() + 1).cloned() else { break };
            let rolls = self.truth.states_since(process.applied_before);
            durable_commit::judge(&entry, rolls, &self.members, &mut self.counts);
            let changes_before = self.truth.changes.len();
            let values = self.truth.learn(now, &entry, status.term, &mut self.counts);
            for (name, token) in self.truth.take_began() {
                self.invariants.tokens_grow.began(&name, token, &mut self.counts);
            }
            self.invariants.written_once.judge_entry(&values, &self.truth);
            for change in &self.truth.changes[changes_before..] {
                self.invariants.growth.judge_change(change, &mut self.counts);
                self.invariants.one_writer.judge(change, &mut self.counts);
            }
            let ended = self.truth.take_ended();
            self.invariants.leases_kept.judge(&ended, &self.truth, &mut self.counts);
            self.welcome();
            self.tell_lines();
        }
        let member = self.members.get_mut(&number).expect("only members are called");
        let life = member.life;
        let process = member.process.as_mut().expect("it was just called");
        let moved =
            std::mem::replace(&mut process.applied_before, status.applied) != status.applied;
        self.invariants.one_leader.judge(number, &status, &mut self.counts);
        let (truth, counts) = (&self.truth, &mut self.counts);
        self.invariants.leader_completeness.judge(number, process, &status, truth, counts);
        one_roll::judge_leader(number, &status, &self.truth);
        if moved {
            one_roll::judge(number, &process.replica, &status, &mut self.counts);
        }
        self.invariants.growth.judge_member((number, life), &status);
        agreement::judge_log(number, process, &status, &self.truth);
        if moved {
            let (dice, counts) = (&mut self.dice, &mut self.counts);
            agreement::judge_state(number, process, &status, &self.truth, dice, counts);
        }
    }

    fn carry_out(&mut self, number: Number, effects: Effects) {
        let now = self.now();
        for notice in effects.notices {
            self.tell_notice(number, &notice);
            let honest = self.rotten.is_empty();
            assert!(
                !(honest && matches!(notice, Notice::Differs { .. })),
                "audit: m{number} finds a difference where there is none: {notice:?}"
            );
            if let Notice::SnapshotInstalled(_) = &notice {
                self.counts.count("snapshot_installed");
            }
            if let Notice::ChangeDone(MemberChange::Remove(removed)) = &notice
                && removed.0 != number
            {
                let delay = self.dice.duration(us(100), ms(300));
                self.agenda.after(delay, Happening::Dismiss(number, removed.0));
            }
            self.notices.push((now, number, notice));
        }
        for (to, message) in effects.messages {
            self.send(number, to.0, message);
        }
        for (listener, news) in effects.lines {
            self.tell_line(number, listener, &news);
        }
        for answer in effects.answers {
            self.answered(number, answer);
        }
        for news in effects.watch {
            self.tell(number, news);
        }
        for (message, frozen) in effects.send_snapshots {
            self.send_snapshot(number, message, &frozen);
        }
        if let Some((index, state)) = effects.audit {
            self.counts.count("audited");
            // A rotten member is right about everything but what it holds.
            let digest = state.digest() ^ u64::from(self.rotten.contains(&number));
            let delay = self.dice.duration(us(300), ms(30));
            let (life, input) =
                (self.members[&number].life, Box::new(Input::Audited(index, digest)));
            self.agenda.after(delay, Happening::Arrive { to: number, life, input });
        }
        if let Some(mut frozen) = effects.freeze {
            if self.canary == Some(Canary::MarkForgetsChange) {
                frozen.mark.outgoing.clear();
            }
            self.counts.count("snapshot_taken");
            self.tell_snapshot(number, "taken", frozen.mark.index);
            let delay = self.dice.duration(us(300), ms(30));
            let good = !self.dice.chance(self.snapshot_failures);
            let (life, frozen) = (self.members[&number].life, Box::new(frozen));
            let what = Happening::SnapshotWritten { member: number, life, frozen, good };
            self.agenda.after(delay, what);
        }
    }

    fn send(&mut self, from: Number, to: Number, message: Message) {
        let now = self.now();
        let (dice, counts) = (&mut self.dice, &mut self.counts);
        let arrivals = self.net.arrivals(now, from, to, dice, counts);
        self.tell_send(from, to, &message, &arrivals);
        if let Message::Raft(message) = &message
            && &message.context[..] == b"vouch"
        {
            self.counts.count("vouched");
        }
        let lives = (self.members[&from].life, self.members[&to].life);
        if !self.net.carries((from, lives.0), (to, lives.1)) {
            return;
        }
        if self.canary == Some(Canary::ForwardedTwice)
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

    fn deliver(&mut self, at: Moment, from: Number, to: Number, message: &Message) {
        let travelled =
            Message::from_bytes(&message.to_bytes()).expect("what was sent can be read");
        let input = Box::new(Input::Message(id(from), travelled));
        let life = self.members[&to].life;
        self.agenda.at(at, Happening::Arrive { to, life, input });
    }

    fn answered(&mut self, number: Number, answer: Answer) {
        if self.canary == Some(Canary::AnswerSwallowed) && self.dice.chance(5) {
            return;
        }
        let open = self.invariants.one_answer.answer(number, answer.to, &mut self.counts);
        if self.canary == Some(Canary::AnsweredTwice) && self.dice.chance(5) {
            self.invariants.one_answer.answer(number, answer.to, &mut self.counts);
        }
        self.tell_answer(number, &open, &answer);
        let patience = self.members[&number].config.request_timeout + ms(300);
        if self.counts.of("paused") == 0 {
            self.invariants.one_answer.judge_wait(&open, self.agenda.now(), patience);
        }
        let (truth, counts) = (&self.truth, &mut self.counts);
        self.invariants.written_once.judge_answer(&open, &answer, truth, counts);
        self.invariants.linearizable.judge(&open, &answer, truth, counts);
        self.note_lease(&open, &answer);
        self.with_client(open.client, |client, me, world| {
            client.answered(me, world, &open, &answer);
        });
    }

    fn note_lease(&mut self, open: &Open, answer: &Answer) {
        match (&open.request, &answer.result) {
            (_, Ok(Reply::Wrote(Outcome::Lease(lease)))) => {
                let Some(ttl) = self.truth.leases.get(&lease.id).map(|story| story.ttl) else {
                    return;
                };
                let kept = &mut self.invariants.leases_kept;
                kept.acknowledged(lease.id, open.sent, ttl, &self.truth);
            }
            (Request::Write(Command::LeaseRevoke(lease)), Ok(_)) => {
                self.invariants.leases_kept.forget(*lease);
            }
            _ => {}
        }
    }

    fn tell_line(&mut self, number: Number, listener: u64, news: &LineNews) {
        self.tell_line_news(number, listener, news);
        let Some((client, at)) = self.streams.get(&listener).copied() else { return };
        assert_eq!(at, number, "a listener is told by another member than its own");
        self.with_client(client, |client, me, world| client.line_news(me, world, listener, news));
    }

    fn tell(&mut self, number: Number, news: WatchNews) {
        if self.canary == Some(Canary::NewsLost)
            && matches!(news, WatchNews::Events { .. })
            && self.dice.chance(20)
        {
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
            self.tell_watch_news(number, (client, stream), &news);
            self.with_client(client, |client, me, world| client.told(me, world, stream, &news));
        }
    }

    fn write(&mut self, number: Number, effects: &mut Effects) {
        let lies = self.canary == Some(Canary::DiskLies);
        let member = self.members.get_mut(&number).expect("only members write");
        let life = member.life;
        let was_waiting = !member.disk.submitted().is_empty();
        let mut early = vec![];
        for persist in std::mem::take(&mut effects.persist) {
            if lies || was_waiting && self.canary == Some(Canary::DiskAcknowledgesOutOfOrder) {
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
    pub(super) fn write_on(&mut self, number: Number) {
        let member = self.members.get_mut(&number).expect("only members write");
        if member.disk.begin() {
            let delay = self.dice.duration(member.disk.flush.0, member.disk.flush.1);
            let life = member.life;
            self.agenda.after(delay, Happening::Flushed { member: number, life });
        }
    }

    pub(super) fn flushed(&mut self, number: Number, life: u64) {
        let member = self.members.get_mut(&number).expect("only members write");
        if member.life != life || member.process.is_none() {
            return;
        }
        if member.disk.stalls > 0 {
            self.agenda.after(ms(1), Happening::Flushed { member: number, life });
            return;
        }
        if member.disk.full || member.disk.fails {
            return self.flush_failed(number);
        }
        let written = member.disk.flushed();
        let each = self.dice.chance(300);
        let last = written.last().copied();
        for number_written in written {
            if each || Some(number_written) == last {
                self.arrive(number, life, Input::Persisted(number_written));
            }
        }
        self.write_on(number);
    }

    /// Nobody knows what is on the disk after a flush that failed: the process ends, and nothing of it is
    /// ever acknowledged. It comes back when somebody has seen to the disk.
    fn flush_failed(&mut self, number: Number) {
        let disk = &mut self.member_mut(number).disk;
        let what = if disk.full { "disk_full" } else { "disk_failed" };
        // A full one is started again when there is room, a broken one when it was replaced.
        if !disk.full {
            let delay = self.dice.duration(ms(50), ms(1000));
            self.agenda.after(delay, Happening::Start(number));
        }
        self.member_mut(number).disk.fails = false;
        self.counts.count(what);
        self.tell_of(number, "say", || "cannot write and stops".into());
        self.crash(number);
    }

    pub(super) fn snapshot_written(
        &mut self,
        number: Number,
        life: u64,
        frozen: &Frozen,
        good: bool,
    ) {
        let member = self.members.get_mut(&number).expect("only members write");
        if member.life != life || member.process.is_none() {
            return;
        }
        let (input, step) = if good {
            member.disk.save(frozen.mark.clone(), freeze(frozen));
            member.disk.release(frozen.mark.index);
            (Input::SnapshotSaved(frozen.mark.clone()), "saved")
        } else {
            self.counts.count("snapshot_failure");
            (Input::SnapshotFailed, "failed")
        };
        self.tell_snapshot(number, step, frozen.mark.index);
        self.arrive(number, life, input);
    }

    fn send_snapshot(&mut self, from: Number, mut message: RaftMessage, frozen: &Frozen) {
        if let Some(mark) = &mut message.snapshot
            && self.canary == Some(Canary::MarkForgetsChange)
        {
            mark.outgoing.clear();
        }
        let to = message.to.0;
        let lives = (self.members[&from].life, self.members[&to].life);
        self.counts.count("snapshot_sent");
        let delay = self.dice.duration(us(500), ms(40));
        self.tell_snapshot_sent(from, &message, self.now() + delay);
        let (from, to) = ((from, lives.0), (to, lives.1));
        let (message, chunks) = (Box::new(message), freeze(frozen));
        self.agenda.after(delay, Happening::SnapshotCame { from, to, message, chunks });
    }

    pub(super) fn snapshot_came(
        &mut self,
        from: (Number, u64),
        to: (Number, u64),
        message: RaftMessage,
        mut chunks: Chunks,
    ) {
        let mark = message.snapshot.clone().expect("only snapshots travel this way");
        let passes = self.net.carries(from, to) && !self.net.links.is_cut(from.0, to.0);
        let lost = self.dice.chance(self.net.links.weather.loss);
        let good = passes && !lost;
        self.tell_snapshot_came((from.0, to.0), &mark, good);
        self.arrive(from.0, from.1, Input::SnapshotSent(id(to.0), good));
        if !good {
            self.counts.count("snapshot_lost");
            return;
        }
        if self.canary == Some(Canary::SnapshotMislabelled)
            && let Some(sender) = &self.members[&from.0].process
        {
            let state = sender.replica.state().clone();
            chunks = freeze(&Frozen { mark: mark.clone(), state });
        }
        let state = Box::new(thaw(&chunks));
        let receiver = self.members.get_mut(&to.0).expect("only members receive");
        receiver.disk.save(mark, chunks.clone());
        if self.dice.chance(self.net.links.weather.duplicates) {
            // A sender that gave up too early sends it again.
            self.counts.count("snapshot_again");
            let delay = self.dice.duration(us(100), ms(300));
            self.tell_snapshot_sent(from.0, &message, self.now() + delay);
            let message = Box::new(message.clone());
            self.agenda.after(delay, Happening::SnapshotCame { from, to, message, chunks });
        }
        self.arrive(to.0, to.1, Input::SnapshotArrived(message, state));
    }

    pub(super) fn maybe_stale(&self, request: Request) -> Request {
        match request {
            Request::Read(read, Consistency::Linearizable)
                if self.canary == Some(Canary::StaleReads) =>
            {
                Request::Read(read, Consistency::Serializable)
            }
            request => request,
        }
    }
}
