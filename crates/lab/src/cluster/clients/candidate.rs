//! A process that stands in line for an election, leads, writes with its token, and dies or resigns.
//!
//! It believes as the library does: from the word that it leads, until a word to the contrary or until
//! its time is over, counted from the sending of its last renewal that was taken.

use std::time::Duration;

use bytes::Bytes;
use tenure_api::{
    Compare, CompareResult, CompareTarget, Failure, LeaseId, Op, Put, Revision, Span, Txn,
    op::PutLease,
};
use tenure_replica::{
    Answer, LineDone, Moment, Outcome, PlaceInfo, Reply, Request,
    command::{Ask, Command, Ended, Join, LineCommand},
    queue::{
        Event, Mode, Refusal, key_of,
        listeners::{LineInput, LineNews, Listener},
    },
};

use super::Client;
use crate::{
    cluster::{World, happening::Happening, member::Number},
    engine::ms,
    invariants::{one_answer::Open, one_writer::GUARDED},
};

pub struct Candidate {
    me: usize,
    name: Bytes,
    ttl: Duration,
    session: Option<LeaseId>,
    /// At which member its words are heard.
    attached: Option<Number>,
    listener: Listener,
    /// The mark of its attachment, until the member has come to it. What a member that lags behind
    /// tells before that is old; what it tells after that comes after its answer.
    awaits: Option<u64>,
    mark: u64,
    answered: bool,
    early: Vec<LineNews>,
    doing: Doing,
    request: u64,
    lives: i64,
    /// What it asked for was not answered, and is asked again under its number.
    again: Option<Ask>,
    renewed: Moment,
    turns_left: u64,
    holds: Option<Revision>,
    /// With this token, or a smaller one, it will never lead again: it has said so.
    given_up: Option<Revision>,
    /// It lost its place and has not confirmed yet that it stopped.
    unconfirmed: Option<Revision>,
    turn_due: Moment,
}

#[derive(Clone, Debug, PartialEq)]
enum Doing {
    Nothing,
    Attaching,
    Standing,
}

impl Candidate {
    pub fn new(name: &str, ttl_ms: u64) -> Candidate {
        Candidate {
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
            doing: Doing::Nothing,
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
        self.doing = Doing::Attaching;
        self.turns_left = world.dice.between(4, 40);
        world.invariants.one_believer.stops(&self.name, me);
    }

    /// Opens its session, or comes back to it.
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
        world.listen(member, LineInput::Attach { listener, session: id, by });
        let command = match self.session {
            Some(id) => LineCommand::Attach { id, by },
            None => LineCommand::Open {
                id,
                ttl_ms: self.ttl.as_millis() as u64,
                identity: format!("c{me}"),
                fast_release: false,
                by,
            },
        };
        let asked = world.ask(me, member, Request::Write(Command::Line(command))).is_some();
        self.attached = asked.then_some(member);
        asked
    }

    fn next_ask(&mut self, world: &mut World) -> Option<Ask> {
        if let Some(ask) = self.again.clone() {
            return Some(ask);
        }
        let ask = if let Some(token) = self.unconfirmed.take() {
            self.given_up = self.given_up.max(Some(token));
            Ask::Leave { name: self.name.clone(), token: Some(token), stopped: true }
        } else if let Some(token) = self.holds.filter(|_| world.dice.chance(60)) {
            self.give_up(self.me, world);
            Ask::Leave { name: self.name.clone(), token: Some(token), stopped: true }
        } else if let Some(old) = self.given_up.filter(|_| world.dice.chance(40)) {
            // It was left before; somebody says so again.
            Ask::Leave { name: self.name.clone(), token: Some(old), stopped: true }
        } else if self.request == 0 || world.dice.chance(50) {
            Ask::Join(Join {
                names: vec![self.name.clone()],
                value: Bytes::new(),
                mode: Mode::Exclusive,
                priority: world.dice.below(3) as u32,
                preempts: world.dice.chance(300),
                no_overlap: true,
                try_only: false,
                unhealthy: false,
                metadata: vec![],
            })
        } else {
            return None;
        };
        self.request += 1;
        self.again = Some(ask.clone());
        Some(ask)
    }

    /// A write that counts only while this process leads.
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
        world.agenda.after(delay, Happening::Client(me));
    }

    fn believed_until(&self) -> Moment {
        self.renewed + (self.ttl - self.margin())
    }

    fn believe(&mut self, me: usize, world: &mut World, token: Revision) {
        let (now, until) = (world.now(), self.believed_until());
        // A member that lags behind may say so when it is long over.
        if now >= until || Some(token) <= self.given_up {
            return;
        }
        self.holds = Some(token);
        world.invariants.tokens_grow.told(&self.name, me, token);
        world.tell_belief(me, &self.name, token, until);
        let counts = &mut world.counts;
        world.invariants.one_believer.believes(&self.name, me, token, (now, until), counts);
    }

    fn stop(&mut self, me: usize, world: &mut World) {
        let token = self.disbelieve(me, world);
        self.unconfirmed = token.or(self.unconfirmed);
    }

    /// It stops, and is about to say so: no word makes it lead with this token any more.
    fn give_up(&mut self, me: usize, world: &mut World) {
        let token = self.disbelieve(me, world);
        self.given_up = self.given_up.max(token);
    }

    fn disbelieve(&mut self, me: usize, world: &mut World) -> Option<Revision> {
        world.invariants.one_believer.stops(&self.name, me);
        let token = self.holds.take()?;
        world.tell_disbelief(me, &self.name, token, self.believed_until());
        Some(token)
    }

    /// A sign of life that was sent then has been taken.
    fn is_renewed(&mut self, sent: Moment, me: usize, world: &mut World) {
        self.renewed = sent;
        // People have read of the belief before.
        if let Some(token) = self.holds.filter(|_| world.trace.is_drawn()) {
            world.tell_belief(me, &self.name, token, self.believed_until());
        }
    }

    /// What is true of its places, all at once.
    fn see(&mut self, me: usize, world: &mut World, places: &[PlaceInfo]) {
        let held = places.iter().find(|info| info.name == self.name && info.place.told);
        match held.map(|info| info.place.created) {
            Some(token) if self.holds == Some(token) => {}
            Some(token) => {
                self.stop(me, world);
                self.unconfirmed = None;
                self.believe(me, world, token);
            }
            None => self.stop(me, world),
        }
    }

    fn hear(&mut self, me: usize, world: &mut World, event: &Event) {
        match event {
            Event::Granted { place, .. } => {
                world.counts.count("granted");
                self.believe(me, world, place.created);
            }
            Event::Gone { place, .. } | Event::Moved { old: place, .. } => {
                if self.holds == Some(place.created) {
                    self.stop(me, world);
                }
                // The answer to its join may still be on the way, and says that it holds this.
                self.given_up = self.given_up.max(Some(place.created));
            }
            Event::Drain { place, .. } if self.holds == Some(place.created) => {
                world.counts.count("drained");
                if self.again.is_none() {
                    self.give_up(me, world);
                    self.request += 1;
                    let (name, token) = (self.name.clone(), place.created);
                    self.again = Some(Ask::Yield { name, token, stay: true });
                }
            }
            Event::SessionEnded { .. } => {
                self.stop(me, world);
                self.doing = Doing::Nothing;
            }
            _ => {}
        }
    }

    fn take_news(&mut self, me: usize, world: &mut World, news: &LineNews) {
        match news {
            LineNews::Session(event) => self.hear(me, world, event),
            LineNews::Places(places) => self.see(me, world, places),
            LineNews::Held | LineNews::Gone(_) | LineNews::Observed(_) => {}
        }
    }

    fn did(&mut self, me: usize, world: &mut World, ask: &Ask, done: &Result<LineDone, Refusal>) {
        self.again = None;
        if matches!(ask, Ask::Leave { .. } | Ask::Yield { .. }) && done.is_ok() {
            world.counts.count("left");
        }
        match done {
            Ok(LineDone::Places(places)) if matches!(ask, Ask::Join(_)) => {
                let places = places.clone();
                if places.iter().any(|info| info.place.told) {
                    self.see(me, world, &places);
                }
            }
            Err(Refusal::SessionGone) => {
                self.stop(me, world);
                self.doing = Doing::Nothing;
            }
            _ => {}
        }
    }
}

impl Client for Candidate {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting || world.now() < self.turn_due {
            return;
        }
        if world.now() >= self.believed_until() {
            self.stop(me, world);
        }
        if self.doing == Doing::Nothing {
            self.begin_life(me, world);
        }
        if self.attached.is_none() || self.doing == Doing::Attaching {
            if !self.attach(me, world) {
                self.next_turn(me, world, ms(30));
            }
            return;
        }
        let (Some(member), Some(id)) = (self.attached, self.session) else { return };
        self.turns_left = self.turns_left.saturating_sub(1);
        if self.turns_left == 0 {
            // It dies, and nobody hears why; or it says so.
            self.doing = Doing::Nothing;
            self.stop(me, world);
            // It has said that it stopped: no word makes it lead any more.
            self.attached = None;
            let how = Ended::Closed { stopped: true };
            let close = Command::Line(LineCommand::End { id, how });
            let closes = world.dice.chance(500);
            if !closes || world.ask(me, member, Request::Write(close)).is_none() {
                self.next_turn(me, world, ms(200));
            }
            return;
        }
        let due = world.now() >= self.renewed + self.ttl / 3;
        let command = if due {
            Command::LeaseRenew(id)
        } else if let Some(ask) = self.next_ask(world) {
            Command::Line(LineCommand::Ask { session: id, request: self.request, ask })
        } else if let Some(token) = self.holds {
            self.guarded_write(token, id)
        } else {
            let delay = self.ttl / 6;
            self.next_turn(me, world, delay);
            return;
        };
        if world.ask(me, member, Request::Write(command)).is_none() {
            self.attached = None;
            self.next_turn(me, world, ms(10));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, open: &Open, answer: &Answer) {
        let Request::Write(command) = &open.request else { return };
        // It has closed its session since, or turned to another member: this makes it lead no more.
        if let Command::Line(LineCommand::Open { by, .. } | LineCommand::Attach { by, .. }) =
            command
            && (self.attached.is_none() || *by != self.mark)
        {
            return self.next_turn(me, world, ms(20));
        }
        // Of a session that it has given up, and opened another since.
        if let Command::LeaseRenew(of) | Command::Line(LineCommand::Ask { session: of, .. }) =
            command
            && Some(*of) != self.session
        {
            return self.next_turn(me, world, ms(20));
        }
        let delay = match (command, &answer.result) {
            (
                Command::Line(LineCommand::Open { id, .. } | LineCommand::Attach { id, .. }),
                Ok(Reply::Wrote(Outcome::Line(done))),
            ) => match done {
                Ok(LineDone::Session { places, .. }) => {
                    assert!(self.awaits.is_none(), "c{me} was attached and will hear nothing");
                    self.session = Some(*id);
                    self.is_renewed(open.sent, me, world);
                    self.doing = Doing::Standing;
                    self.see(me, world, places);
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
                    self.doing = Doing::Nothing;
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
                self.doing = Doing::Nothing;
                ms(50)
            }
            (
                Command::Line(LineCommand::Ask { ask, .. }),
                Ok(Reply::Wrote(Outcome::Line(done))),
            ) => {
                // It has closed its session since, or turned to another member: what it asked for was done,
                // but makes it lead no more.
                if self.attached.is_some() {
                    self.did(me, world, ask, done);
                }
                ms(10)
            }
            (Command::Txn(_), Ok(Reply::Wrote(Outcome::Txn(done)))) => {
                let what = if done.succeeded { "guarded_write" } else { "stale_write_refused" };
                world.counts.count(what);
                ms(20)
            }
            // The stream that spoke for it is of no use: it comes back elsewhere.
            (_, Err(_)) => {
                self.attached = None;
                ms(40)
            }
            _ => ms(10),
        };
        let leisurely = (delay * world.leisure).min(self.ttl / 6).max(delay);
        self.next_turn(me, world, leisurely);
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &Open) {
        self.attached = None;
        self.next_turn(me, world, ms(20));
    }

    fn line_news(&mut self, me: usize, world: &mut World, listener: Listener, news: &LineNews) {
        if self.attached.is_none() || self.listener != listener {
            return;
        }
        if let LineNews::Session(Event::Attached { by, .. }) = news
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

    fn member_gone(&mut self, me: usize, world: &mut World, member: Number) {
        if self.attached == Some(member) {
            self.attached = None;
            self.next_turn(me, world, ms(15));
        }
    }

    fn settled(&mut self, world: &mut World) {
        let line = world.truth.state().queues.line(&self.name);
        let left = line.map_or(0, |line| {
            line.places().iter().filter(|place| place.candidate.is_some()).count()
        });
        assert_eq!(left, 0, "somebody stands in line though all sessions are over");
    }
}
