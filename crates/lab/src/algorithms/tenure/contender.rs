//! A process that wants to lead: it opens a session, stands in line, renews, and believes by the
//! library's rule.
//!
//! It leads from the word that it does, until a word to the contrary or until its deadline: TTL less a
//! margin after the *sending* of the last renewal that was acknowledged. Past the deadline its session is
//! lost for good, and it begins with another.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use tenure_api::{Failure, LeaseId, Revision};
use tenure_replica::{
    LineDone, Moment, Outcome, PlaceInfo, Reply,
    command::{Ask, Command, Join, LineCommand},
    queue::{
        Event, Mode, Refusal,
        listeners::{LineNews, Observed},
    },
};

use super::{
    ELECTION, MARGIN, SERVERS, TTL,
    word::{Say, Told},
};
use crate::{
    engine::ms,
    stage::{NodeId, Part, Program, Scene, View},
};

/// A request that is not answered for so long is tried elsewhere.
const PATIENCE: Duration = Duration::from_millis(TTL.as_millis() as u64 / 6);
/// And so soon after a failure.
const PAUSE: Duration = ms(20);

#[derive(Debug, Default)]
pub(super) struct Contender {
    me: NodeId,
    /// Sessions and streams so far; no number is used twice, however often it dies.
    sessions: i64,
    streams: u64,
    session: Option<LeaseId>,
    /// It was opened; from then on it can be come back to.
    is_open: bool,
    server: NodeId,
    /// How often it has gone to the next.
    tried: NodeId,
    stream: u64,
    /// How much it has heard on its stream.
    heard: u64,
    attached: bool,
    early: Vec<LineNews>,
    /// The member has come to its attachment: what it tells before that is old.
    reached: bool,
    joined: bool,
    requests: u64,
    /// What it asked, and when.
    pending: BTreeMap<u64, (Command, Moment)>,
    renewed: Moment,
    holds: Option<Revision>,
    leader: Option<NodeId>,
}

impl Contender {
    fn deadline(&self) -> Moment {
        self.renewed + (TTL - MARGIN)
    }

    fn is_over(&self, now: Moment) -> bool {
        self.is_open && now >= self.deadline()
    }

    /// Another session, and a place in line anew.
    fn begin(&mut self, scene: &mut Scene<'_, Say>) {
        self.stop(scene);
        self.sessions += 1;
        self.session = Some(LeaseId((self.me as i64 + 1) * 100_000 + self.sessions));
        (self.is_open, self.joined) = (false, false);
        scene.cancel("deadline");
        scene.cancel("renew");
        self.attach(scene);
    }

    /// Comes back at the next server.
    fn attach(&mut self, scene: &mut Scene<'_, Say>) {
        let contenders = scene.contenders().count() as NodeId;
        self.tried += 1;
        self.attach_to(contenders + (self.me + self.tried) % SERVERS as NodeId, scene);
    }

    /// Opens its session there, or comes back to it.
    fn attach_to(&mut self, server: NodeId, scene: &mut Scene<'_, Say>) {
        let Some(id) = self.session else { return };
        self.server = server;
        self.streams += 1;
        self.stream = self.me << 32 | self.streams;
        (self.heard, self.attached, self.reached) = (0, false, false);
        self.early.clear();
        self.pending.clear();
        let by = self.stream;
        let command = if self.is_open {
            LineCommand::Attach { id, by }
        } else {
            let (ttl_ms, identity) = (TTL.as_millis() as u64, scene.name(self.me).to_owned());
            LineCommand::Open { id, ttl_ms, identity, fast_release: false, by }
        };
        self.ask(Command::Line(command), scene);
        scene.alarm("attach", PATIENCE);
    }

    fn ask(&mut self, command: Command, scene: &mut Scene<'_, Say>) {
        self.requests += 1;
        let (stream, number) = (self.stream, self.requests);
        self.pending.insert(number, (command.clone(), scene.now()));
        scene.send(self.server, Say::Ask { stream, number, command });
    }

    fn join(&mut self, scene: &mut Scene<'_, Say>) {
        let Some(session) = self.session else { return };
        let ask = Ask::Join(Join {
            names: vec![Bytes::from_static(ELECTION)],
            value: Bytes::new(),
            mode: Mode::Exclusive,
            priority: 0,
            preempts: false,
            no_overlap: true,
            try_only: false,
            unhealthy: false,
            metadata: vec![],
        });
        // Always the first request of its session: a repetition is known by that.
        self.ask(Command::Line(LineCommand::Ask { session, request: 1, ask }), scene);
    }

    fn confirm(&mut self, sent: Moment, scene: &mut Scene<'_, Say>) {
        self.renewed = self.renewed.max(sent);
        let now = scene.now();
        scene.alarm("deadline", self.deadline().since(now));
        scene.alarm("renew", (self.renewed + TTL / 3).since(now));
    }

    fn believe(&mut self, token: Revision, scene: &mut Scene<'_, Say>) {
        if self.holds != Some(token) {
            self.holds = Some(token);
            self.leader = Some(self.me);
            scene.lead(Some(token.0 as u64));
        }
    }

    fn stop(&mut self, scene: &mut Scene<'_, Say>) {
        if self.holds.take().is_some() {
            self.leader = None;
            scene.step_down();
        }
    }

    /// What is true of its places, all at once.
    fn see(&mut self, places: &[PlaceInfo], scene: &mut Scene<'_, Say>) {
        match places.iter().find(|info| info.place.told) {
            Some(held) => self.believe(held.place.created, scene),
            None => self.stop(scene),
        }
    }

    fn answer(&mut self, number: u64, result: Result<Reply, Failure>, scene: &mut Scene<'_, Say>) {
        let Some((command, sent)) = self.pending.remove(&number) else { return };
        match (command, result) {
            (_, Ok(Reply::Wrote(Outcome::Line(Ok(LineDone::Session { places, .. }))))) => {
                (self.is_open, self.attached) = (true, true);
                scene.cancel("attach");
                self.confirm(sent, scene);
                self.see(&places, scene);
                for news in std::mem::take(&mut self.early) {
                    self.take_news(news, scene);
                }
                if !self.joined {
                    self.join(scene);
                }
            }
            // It is open already: an answer was lost.
            (
                Command::Line(LineCommand::Open { .. }),
                Ok(Reply::Wrote(Outcome::Line(Err(Refusal::SessionGone)))),
            ) => {
                self.is_open = true;
                self.renewed = sent;
                self.attach_to(self.server, scene);
            }
            (_, Ok(Reply::Wrote(Outcome::Line(Ok(LineDone::Places(places)))))) => {
                self.joined = true;
                if places.iter().any(|info| info.place.told) {
                    self.see(&places, scene);
                }
            }
            (Command::LeaseRenew(_), Ok(_)) => {
                scene.cancel("missed");
                self.confirm(sent, scene);
                if !self.joined {
                    self.join(scene);
                }
            }
            (Command::LeaseRenew(_), Err(Failure::LeaseNotFound))
            | (_, Ok(Reply::Wrote(Outcome::Line(Err(_))))) => self.begin(scene),
            // This server cannot help at the moment.
            _ => scene.alarm("attach", PAUSE),
        }
    }

    fn news(&mut self, news: LineNews, scene: &mut Scene<'_, Say>) {
        if let LineNews::Session(Event::Attached { by, .. }) = &news
            && *by == self.stream
        {
            self.reached = true;
        }
        match () {
            () if !self.reached => {}
            () if !self.attached => self.early.push(news),
            () => self.take_news(news, scene),
        }
    }

    fn take_news(&mut self, news: LineNews, scene: &mut Scene<'_, Say>) {
        match news {
            LineNews::Session(Event::Granted { place, .. }) => self.believe(place.created, scene),
            LineNews::Session(Event::Gone { place, .. } | Event::Moved { old: place, .. })
                if self.holds == Some(place.created) =>
            {
                self.stop(scene)
            }
            LineNews::Session(Event::SessionEnded { .. }) => self.begin(scene),
            LineNews::Places(places) => self.see(&places, scene),
            _ => {}
        }
    }

    /// Who leads, as far as is told; for people only.
    fn observe(&mut self, observed: &Observed, scene: &mut Scene<'_, Say>) {
        match observed {
            Observed::Began(tenure, _) => self.leader = Some(scene.named(&tenure.identity)),
            Observed::Ended(_) | Observed::Vacant { .. } => {
                let before = self.leader.take();
                if before.is_some_and(|leader| leader != self.me) {
                    scene.detect();
                }
            }
            _ => {}
        }
    }
}

impl Program<Say> for Contender {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        let Contender { sessions, streams, .. } = *self;
        *self = Contender { me: scene.me, sessions, streams, ..Contender::default() };
        self.begin(scene);
    }

    fn receive(&mut self, _from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        if self.is_over(scene.now()) {
            return self.begin(scene);
        }
        let Say::Tell { stream, nth, what } = word else { return };
        if stream != self.stream || nth <= self.heard {
            return;
        }
        self.heard += 1;
        if nth > self.heard {
            scene.say("has missed something, and comes back elsewhere");
            return self.attach(scene);
        }
        match what {
            Told::Answer { number, result } => self.answer(number, *result, scene),
            Told::News(LineNews::Observed(observed)) => self.observe(&observed, scene),
            Told::News(news) => self.news(news, scene),
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        if alarm == "deadline" || self.is_over(scene.now()) {
            scene.say("could not renew in time");
            return self.begin(scene);
        }
        match (alarm, self.session) {
            ("renew", Some(session)) if self.attached => {
                self.ask(Command::LeaseRenew(session), scene);
                scene.alarm("missed", PATIENCE);
            }
            ("attach" | "missed", _) => self.attach(scene),
            _ => {}
        }
    }

    fn closed(&mut self, by: NodeId, scene: &mut Scene<'_, Say>) {
        if by == self.server {
            self.attached = false;
            scene.cancel("missed");
            scene.alarm("attach", PAUSE);
        }
    }

    fn stops_at(&self) -> Option<&'static str> {
        Some("deadline")
    }

    fn view(&self) -> View {
        let part = match (self.holds, self.joined) {
            (Some(_), _) => Part::Leader,
            (None, true) => Part::Waiting,
            (None, false) => Part::Idle,
        };
        View::new(part)
            .leader(self.leader)
            .token(self.holds.map(|token| token.0 as u64))
            .fact("session", self.session.filter(|_| self.is_open).map(|session| session.0))
    }
}
