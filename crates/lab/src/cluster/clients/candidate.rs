//! A process that campaigns, leads, writes with its token, and dies or resigns.
//!
//! It believes as the library does: from the event that it leads until an event to the contrary, or until its TTL
//! has passed, counted from the sending of its last acknowledged renewal.

use std::time::Duration;

use bytes::Bytes;
use tenure_api::{
    Compare, CompareResult, CompareTarget, Failure, LeaseId, Op, Put, Revision, Span, Txn,
    op::PutLease,
};
use tenure_replica::{
    Answer, CandidacyView, ElectionOutcome, Moment, Operation, Outcome, Reply,
    command::{Command, ElectionCommand, JoinSpec, SessionEnding, SessionRequest},
    election::{
        ElectionEvent, Mode, Refusal, key_of,
        listeners::{Listener, ListenerEvent, ListenerInput},
    },
};

use super::SimClient;
use crate::{
    cluster::{World, event::WorldEvent, member::MemberNumber},
    engine::ms,
    invariants::{one_answer::OpenRequest, one_writer::GUARDED},
};

pub struct CandidateClient {
    me: usize,
    name: Bytes,
    ttl: Duration,
    session: Option<LeaseId>,
    /// The member to which it is attached.
    attached: Option<MemberNumber>,
    listener: Listener,
    /// The mark of its attachment, until the member has applied it. Events of a lagging member before that are old;
    /// those after it follow the answer.
    awaits: Option<u64>,
    mark: u64,
    answered: bool,
    early: Vec<ListenerEvent>,
    phase: Phase,
    request: u64,
    lives: i64,
    /// A request that was not answered, and is sent again under its number.
    again: Option<SessionRequest>,
    renewed: Moment,
    turns_left: u64,
    holds: Option<Revision>,
    /// It will never lead again with this token or a smaller one: it has confirmed that.
    given_up: Option<Revision>,
    /// It lost its candidacy and has not confirmed yet that it stopped.
    unconfirmed: Option<Revision>,
    turn_due: Moment,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Nothing,
    Attaching,
    Standing,
}

impl CandidateClient {
    pub fn new(name: &str, ttl_ms: u64) -> CandidateClient {
        CandidateClient {
            me: usize::MAX,
            name: Bytes::copy_from_slice(name.as_bytes()),
            ttl: ms(ttl_ms),
            session: None,
            attached: None,
            listener: 0,
            awaits: None,
            mark: 0,
            answered: false,
            early: vec![],
            phase: Phase::Nothing,
            request: 0,
            lives: 0,
            again: None,
            renewed: Moment::ZERO,
            turns_left: 0,
            holds: None,
            given_up: None,
            unconfirmed: None,
            turn_due: Moment::ZERO,
        }
    }

    fn margin(&self) -> Duration {
        ms(100).max(self.ttl / 100)
    }

    fn begin_life(&mut self, me: usize, world: &mut World) {
        self.me = me;
        self.lives += 1;
        self.session = None;
        self.request = 0;
        self.again = None;
        self.holds = None;
        self.unconfirmed = None;
        self.phase = Phase::Attaching;
        self.turns_left = world.dice.between(4, 40);
        world.invariants.one_believer.stops(&self.name, me);
    }

    /// Opens its session, or attaches to it again.
    fn attach(&mut self, me: usize, world: &mut World) -> bool {
        let Some(member) = world.some_member() else { return false };
        let by = world.dice.below(u64::MAX);
        let id = LeaseId((me as i64 + 1) * 100_000 + self.lives);
        let Some(listener) = world.open_stream(me, member) else { return false };
        self.listener = listener;
        self.awaits = Some(by);
        self.mark = by;
        self.answered = false;
        self.early.clear();
        world.listen(member, ListenerInput::Attach { listener, session: id, by });
        let command = match self.session {
            Some(id) => ElectionCommand::Attach { id, by, secret: None },
            None => ElectionCommand::Open {
                secret: None,
                id,
                ttl_ms: self.ttl.as_millis() as u64,
                identity: format!("c{me}"),
                fast_release: false,
                by,
            },
        };
        let asked =
            world.send_request(me, member, Operation::Write(Command::Election(command))).is_some();
        self.attached = asked.then_some(member);
        asked
    }

    fn next_request(&mut self, world: &mut World) -> Option<SessionRequest> {
        if let Some(request) = self.again.clone() {
            return Some(request);
        }
        let request = if let Some(token) = self.unconfirmed.take() {
            self.given_up = self.given_up.max(Some(token));
            SessionRequest::Leave { name: self.name.clone(), token: Some(token), stopped: true }
        } else if let Some(token) = self.holds.filter(|_| world.dice.chance(60)) {
            self.give_up(self.me, world);
            SessionRequest::Leave { name: self.name.clone(), token: Some(token), stopped: true }
        } else if let Some(old) = self.given_up.filter(|_| world.dice.chance(40)) {
            // A repeated leave of a candidacy that was left before.
            SessionRequest::Leave { name: self.name.clone(), token: Some(old), stopped: true }
        } else if self.request == 0 || world.dice.chance(50) {
            SessionRequest::Join(JoinSpec {
                priority: world.dice.below(3) as u32,
                preempts: world.dice.chance(300),
                no_overlap: true,
                ..JoinSpec::one(self.name.clone(), Mode::Exclusive)
            })
        } else {
            return None;
        };
        self.request += 1;
        self.again = Some(request.clone());
        Some(request)
    }

    /// A write that is taken only while this process leads.
    fn guarded_write(&self, token: Revision, id: LeaseId) -> Command {
        let leads = Compare {
            span: Span::One(key_of(&self.name, id)),
            result: CompareResult::Equal,
            target: CompareTarget::Create(token),
        };
        let put = Put {
            key: [GUARDED.as_bytes(), &self.name].concat().into(),
            value: Some(token.0.to_string().into()),
            lease: PutLease::Set(None),
            prev_kv: false,
        };
        Command::Txn(Txn { compare: vec![leads], success: vec![Op::Put(put)], failure: vec![] })
    }

    fn next_turn(&mut self, me: usize, world: &mut World, delay: Duration) {
        self.turn_due = world.now() + delay;
        world.agenda.after(delay, WorldEvent::ClientTurn(me));
    }

    fn believed_until(&self) -> Moment {
        self.renewed + (self.ttl - self.margin())
    }

    fn believe(&mut self, me: usize, world: &mut World, token: Revision) {
        let (now, until) = (world.now(), self.believed_until());
        // The event of a lagging member may come long after the tenure ended.
        if now >= until || Some(token) <= self.given_up {
            return;
        }
        self.holds = Some(token);
        world.invariants.tokens_grow.told(&self.name, me, token);
        world.trace_belief(true, me, &self.name, token, until);
        let counts = &mut world.counts;
        world.invariants.one_believer.believes(&self.name, me, token, (now, until), counts);
    }

    fn stop(&mut self, me: usize, world: &mut World) {
        let token = self.disbelieve(me, world);
        self.unconfirmed = token.or(self.unconfirmed);
    }

    /// It stops, and is about to confirm it: no event makes it lead with this token any more.
    fn give_up(&mut self, me: usize, world: &mut World) {
        let token = self.disbelieve(me, world);
        self.given_up = self.given_up.max(token);
    }

    fn disbelieve(&mut self, me: usize, world: &mut World) -> Option<Revision> {
        world.invariants.one_believer.stops(&self.name, me);
        let token = self.holds.take()?;
        world.trace_belief(false, me, &self.name, token, self.believed_until());
        Some(token)
    }

    /// A renewal that was sent then was acknowledged.
    fn is_renewed(&mut self, sent: Moment, me: usize, world: &mut World) {
        self.renewed = sent;
        // Text traces have the begin of the belief only.
        if let Some(token) = self.holds.filter(|_| world.trace.is_drawn()) {
            world.trace_belief(true, me, &self.name, token, self.believed_until());
        }
    }

    /// The state of all its candidacies at once.
    fn see(&mut self, me: usize, world: &mut World, candidacies: &[CandidacyView]) {
        let held = candidacies.iter().find(|info| info.name == self.name && info.candidate.told);
        match held.map(|info| info.candidate.created) {
            Some(token) if self.holds == Some(token) => {}
            Some(token) => {
                self.stop(me, world);
                self.unconfirmed = None;
                self.believe(me, world, token);
            }
            None => self.stop(me, world),
        }
    }

    fn hear(&mut self, me: usize, world: &mut World, event: &ElectionEvent) {
        match event {
            ElectionEvent::Granted { candidate, .. } => {
                world.counts.count("granted");
                self.believe(me, world, candidate.created);
            }
            ElectionEvent::Gone { candidate, .. } | ElectionEvent::Moved { old: candidate, .. } => {
                if self.holds == Some(candidate.created) {
                    self.stop(me, world);
                }
                // The answer to its join may still be under way, and says that it holds.
                self.given_up = self.given_up.max(Some(candidate.created));
            }
            ElectionEvent::Drain { candidate, .. } if self.holds == Some(candidate.created) => {
                world.counts.count("drained");
                if self.again.is_none() {
                    self.give_up(me, world);
                    self.request += 1;
                    let (name, token) = (self.name.clone(), candidate.created);
                    self.again = Some(SessionRequest::Yield { name, token, stay: true });
                }
            }
            ElectionEvent::SessionEnded { .. } => {
                self.stop(me, world);
                self.phase = Phase::Nothing;
            }
            _ => {}
        }
    }

    fn take_news(&mut self, me: usize, world: &mut World, news: &ListenerEvent) {
        match news {
            ListenerEvent::Session(event) => self.hear(me, world, event),
            ListenerEvent::Candidacies(candidacies) => self.see(me, world, candidacies),
            ListenerEvent::Held
            | ListenerEvent::Gone(_)
            | ListenerEvent::Observed(_)
            | ListenerEvent::Denied(_) => {}
        }
    }

    fn did(
        &mut self,
        me: usize,
        world: &mut World,
        request: &SessionRequest,
        done: &Result<ElectionOutcome, Refusal>,
    ) {
        self.again = None;
        if matches!(request, SessionRequest::Leave { .. } | SessionRequest::Yield { .. })
            && done.is_ok()
        {
            world.counts.count("left");
        }
        match done {
            Ok(ElectionOutcome::Candidacies(candidacies))
                if matches!(request, SessionRequest::Join(_)) =>
            {
                let candidacies = candidacies.clone();
                if candidacies.iter().any(|info| info.candidate.told) {
                    self.see(me, world, &candidacies);
                }
            }
            Err(Refusal::SessionGone) => {
                self.stop(me, world);
                self.phase = Phase::Nothing;
            }
            _ => {}
        }
    }
}

impl SimClient for CandidateClient {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting || world.now() < self.turn_due {
            return;
        }
        if world.now() >= self.believed_until() {
            self.stop(me, world);
        }
        if self.phase == Phase::Nothing {
            self.begin_life(me, world);
        }
        if self.attached.is_none() || self.phase == Phase::Attaching {
            if !self.attach(me, world) {
                self.next_turn(me, world, ms(30));
            }
            return;
        }
        let (Some(member), Some(id)) = (self.attached, self.session) else { return };
        self.turns_left = self.turns_left.saturating_sub(1);
        if self.turns_left == 0 {
            // It dies silently, or closes its session.
            self.phase = Phase::Nothing;
            self.stop(me, world);
            // It has confirmed that it stopped: no event makes it lead any more.
            self.attached = None;
            let how = SessionEnding::Closed { stopped: true };
            let close = Command::Election(ElectionCommand::End { id, how, secret: None });
            let closes = world.dice.chance(500);
            if !closes || world.send_request(me, member, Operation::Write(close)).is_none() {
                self.next_turn(me, world, ms(200));
            }
            return;
        }
        let due = world.now() >= self.renewed + self.ttl / 3;
        let command = if due {
            Command::LeaseRenew(id)
        } else if let Some(request) = self.next_request(world) {
            Command::Election(ElectionCommand::Request {
                session: id,
                number: self.request,
                request,
            })
        } else if let Some(token) = self.holds {
            self.guarded_write(token, id)
        } else {
            let delay = self.ttl / 6;
            self.next_turn(me, world, delay);
            return;
        };
        if world.send_request(me, member, Operation::Write(command)).is_none() {
            self.attached = None;
            self.next_turn(me, world, ms(10));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, open: &OpenRequest, answer: &Answer) {
        let Operation::Write(command) = &open.request else { return };
        // It has closed its session since, or attached to another member: this answer makes it lead no more.
        if let Command::Election(
            ElectionCommand::Open { by, .. } | ElectionCommand::Attach { by, .. },
        ) = command
            && (self.attached.is_none() || *by != self.mark)
        {
            return self.next_turn(me, world, ms(20));
        }
        // The answer is for a session that was given up, with another open since.
        if let Command::LeaseRenew(of)
        | Command::Election(ElectionCommand::Request { session: of, .. }) = command
            && Some(*of) != self.session
        {
            return self.next_turn(me, world, ms(20));
        }
        let delay = match (command, &answer.result) {
            (
                Command::Election(
                    ElectionCommand::Open { id, .. } | ElectionCommand::Attach { id, .. },
                ),
                Ok(Reply::Wrote(Outcome::Election(done))),
            ) => match done {
                Ok(ElectionOutcome::Session { candidacies, .. }) => {
                    assert!(self.awaits.is_none(), "c{me} was attached and will get no events");
                    self.session = Some(*id);
                    self.is_renewed(open.sent, me, world);
                    self.phase = Phase::Standing;
                    self.see(me, world, candidacies);
                    self.answered = true;
                    for news in std::mem::take(&mut self.early) {
                        self.take_news(me, world, &news);
                    }
                    ms(5)
                }
                // It is open already: an answer was lost.
                Err(Refusal::SessionGone) if self.session.is_none() => {
                    self.session = Some(*id);
                    ms(5)
                }
                _ => {
                    self.stop(me, world);
                    self.phase = Phase::Nothing;
                    ms(50)
                }
            },
            (Command::LeaseRenew(_), Ok(_)) => {
                self.is_renewed(open.sent, me, world);
                if self.holds.is_some() {
                    let until = self.believed_until();
                    world.invariants.one_believer.until(&self.name, me, until);
                }
                ms(5)
            }
            (Command::LeaseRenew(_), Err(Failure::LeaseNotFound)) => {
                self.stop(me, world);
                self.phase = Phase::Nothing;
                ms(50)
            }
            (
                Command::Election(ElectionCommand::Request { request, .. }),
                Ok(Reply::Wrote(Outcome::Election(done))),
            ) => {
                // It has closed its session since, or attached to another member: the request was done, but makes it lead
                // no more.
                if self.attached.is_some() {
                    self.did(me, world, request, done);
                }
                ms(10)
            }
            (Command::Txn(_), Ok(Reply::Wrote(Outcome::Txn(done)))) => {
                let what = if done.succeeded { "guarded_write" } else { "stale_write_refused" };
                world.counts.count(what);
                ms(20)
            }
            // The attachment is of no use any more: it attaches to another member.
            (_, Err(_)) => {
                self.attached = None;
                ms(40)
            }
            _ => ms(10),
        };
        let leisurely = (delay * world.leisure).min(self.ttl / 6).max(delay);
        self.next_turn(me, world, leisurely);
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &OpenRequest) {
        self.attached = None;
        self.next_turn(me, world, ms(20));
    }

    fn election_news(
        &mut self,
        me: usize,
        world: &mut World,
        listener: Listener,
        news: &ListenerEvent,
    ) {
        if self.attached.is_none() || self.listener != listener {
            return;
        }
        if let ListenerEvent::Session(ElectionEvent::Attached { by, .. }) = news
            && self.awaits == Some(*by)
        {
            self.awaits = None;
        }
        match () {
            () if self.awaits.is_some() => {}
            () if !self.answered => self.early.push(news.clone()),
            () => self.take_news(me, world, news),
        }
    }

    fn member_gone(&mut self, me: usize, world: &mut World, member: MemberNumber) {
        if self.attached == Some(member) {
            self.attached = None;
            self.next_turn(me, world, ms(15));
        }
    }

    fn settled(&mut self, world: &mut World) {
        let election = world.truth.state().elections.election(&self.name);
        let left = election.map_or(0, |election| {
            election.candidates().iter().filter(|candidate| candidate.spec.is_some()).count()
        });
        assert_eq!(left, 0, "there are candidates though all sessions are over");
    }
}
