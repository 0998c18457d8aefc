//! A process that wants to lead: it opens a session, joins the election, renews, and believes by the library's rule.
//!
//! It leads from the event that it does, until an event to the contrary or until its deadline: TTL less a margin after the
//! *sending* of the last acknowledged renewal. Past the deadline its session is lost for good, and it opens another.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use tenure_api::{Failure, LeaseId, Revision};
use tenure_replica::{
    CandidacyView, ElectionOutcome, Moment, Outcome, Reply,
    command::{Command, ElectionCommand, JoinSpec, SessionRequest},
    election::{
        ElectionEvent, Mode, Refusal,
        listeners::{ListenerEvent, Observed},
    },
};

use super::{
    ELECTION, MARGIN, SERVERS, TTL,
    message::{StreamMessage, TenureMessage},
};
use crate::{
    engine::ms,
    stage::{Actor, Context, ProcessId, ProcessRole, ProcessView},
};

/// After this time without an answer a request is tried at another server.
const PATIENCE: Duration = Duration::from_millis(TTL.as_millis() as u64 / 6);
/// The pause after a failure.
const PAUSE: Duration = ms(20);

#[derive(Debug, Default)]
pub(super) struct TenureContender {
    me: ProcessId,
    /// The number of sessions and streams so far; no number is used twice, across restarts, too.
    sessions: i64,
    streams: u64,
    session: Option<LeaseId>,
    /// Whether it was opened; from then on it can be attached to again.
    is_open: bool,
    server: ProcessId,
    /// How often it has changed servers.
    tried: ProcessId,
    stream: u64,
    /// The number of messages received on its stream.
    heard: u64,
    attached: bool,
    early: Vec<ListenerEvent>,
    /// Whether the member has applied its attachment: events before that are old.
    reached: bool,
    joined: bool,
    requests: u64,
    /// The request under way, and when it was sent.
    pending: BTreeMap<u64, (Command, Moment)>,
    renewed: Moment,
    holds: Option<Revision>,
    leader: Option<ProcessId>,
}

impl TenureContender {
    fn deadline(&self) -> Moment {
        self.renewed + (TTL - MARGIN)
    }

    fn is_over(&self, now: Moment) -> bool {
        self.is_open && now >= self.deadline()
    }

    /// Opens another session, with a new candidacy.
    fn begin(&mut self, context: &mut Context<'_, TenureMessage>) {
        self.stop(context);
        self.sessions += 1;
        self.session = Some(LeaseId((self.me as i64 + 1) * 100_000 + self.sessions));
        (self.is_open, self.joined) = (false, false);
        context.cancel("deadline");
        context.cancel("renew");
        self.attach(context);
    }

    /// Attaches at the next server.
    fn attach(&mut self, context: &mut Context<'_, TenureMessage>) {
        let contenders = context.contenders().count() as ProcessId;
        self.tried += 1;
        self.attach_to(contenders + (self.me + self.tried) % SERVERS as ProcessId, context);
    }

    /// Opens its session at that server, or attaches to it.
    fn attach_to(&mut self, server: ProcessId, context: &mut Context<'_, TenureMessage>) {
        let Some(id) = self.session else { return };
        self.server = server;
        self.streams += 1;
        self.stream = self.me << 32 | self.streams;
        (self.heard, self.attached, self.reached) = (0, false, false);
        self.early.clear();
        self.pending.clear();
        let by = self.stream;
        let command = if self.is_open {
            ElectionCommand::Attach { id, by, secret: None }
        } else {
            let (ttl_ms, identity) = (TTL.as_millis() as u64, context.name(self.me).to_owned());
            ElectionCommand::Open { id, ttl_ms, identity, fast_release: false, by, secret: None }
        };
        self.ask(Command::Election(command), context);
        context.alarm("attach", PATIENCE);
    }

    fn ask(&mut self, command: Command, context: &mut Context<'_, TenureMessage>) {
        self.requests += 1;
        let (stream, number) = (self.stream, self.requests);
        self.pending.insert(number, (command.clone(), context.now()));
        context.send(self.server, TenureMessage::SessionRequest { stream, number, command });
    }

    fn join(&mut self, context: &mut Context<'_, TenureMessage>) {
        let Some(session) = self.session else { return };
        let ask = SessionRequest::Join(JoinSpec {
            no_overlap: true,
            ..JoinSpec::one(Bytes::from_static(ELECTION), Mode::Exclusive)
        });
        // Always the first request of its session, so that a repetition is recognized.
        self.ask(
            Command::Election(ElectionCommand::Request { session, number: 1, request: ask }),
            context,
        );
    }

    fn confirm(&mut self, sent: Moment, context: &mut Context<'_, TenureMessage>) {
        self.renewed = self.renewed.max(sent);
        let now = context.now();
        context.alarm("deadline", self.deadline().since(now));
        context.alarm("renew", (self.renewed + TTL / 3).since(now));
    }

    fn believe(&mut self, token: Revision, context: &mut Context<'_, TenureMessage>) {
        if self.holds != Some(token) {
            self.holds = Some(token);
            self.leader = Some(self.me);
            context.lead(Some(token.0 as u64));
        }
    }

    fn stop(&mut self, context: &mut Context<'_, TenureMessage>) {
        if self.holds.take().is_some() {
            self.leader = None;
            context.step_down();
        }
    }

    /// The state of all its candidacies at once.
    fn see(&mut self, candidacies: &[CandidacyView], context: &mut Context<'_, TenureMessage>) {
        match candidacies.iter().find(|info| info.candidate.told) {
            Some(held) => self.believe(held.candidate.created, context),
            None => self.stop(context),
        }
    }

    fn answer(
        &mut self,
        number: u64,
        result: Result<Reply, Failure>,
        context: &mut Context<'_, TenureMessage>,
    ) {
        let Some((command, sent)) = self.pending.remove(&number) else { return };
        match (command, result) {
            (
                _,
                Ok(Reply::Wrote(Outcome::Election(Ok(ElectionOutcome::Session {
                    candidacies,
                    ..
                })))),
            ) => {
                (self.is_open, self.attached) = (true, true);
                context.cancel("attach");
                self.confirm(sent, context);
                self.see(&candidacies, context);
                for news in std::mem::take(&mut self.early) {
                    self.take_news(news, context);
                }
                if !self.joined {
                    self.join(context);
                }
            }
            // It is open already: an answer was lost.
            (
                Command::Election(ElectionCommand::Open { .. }),
                Ok(Reply::Wrote(Outcome::Election(Err(Refusal::SessionGone)))),
            ) => {
                self.is_open = true;
                self.renewed = sent;
                self.attach_to(self.server, context);
            }
            (
                _,
                Ok(Reply::Wrote(Outcome::Election(Ok(ElectionOutcome::Candidacies(candidacies))))),
            ) => {
                self.joined = true;
                if candidacies.iter().any(|info| info.candidate.told) {
                    self.see(&candidacies, context);
                }
            }
            (Command::LeaseRenew(_), Ok(_)) => {
                context.cancel("missed");
                self.confirm(sent, context);
                if !self.joined {
                    self.join(context);
                }
            }
            (Command::LeaseRenew(_), Err(Failure::LeaseNotFound))
            | (_, Ok(Reply::Wrote(Outcome::Election(Err(_))))) => self.begin(context),
            // This server cannot serve at the moment.
            _ => context.alarm("attach", PAUSE),
        }
    }

    fn news(&mut self, news: ListenerEvent, context: &mut Context<'_, TenureMessage>) {
        if let ListenerEvent::Session(ElectionEvent::Attached { by, .. }) = &news
            && *by == self.stream
        {
            self.reached = true;
        }
        match () {
            () if !self.reached => {}
            () if !self.attached => self.early.push(news),
            () => self.take_news(news, context),
        }
    }

    fn take_news(&mut self, news: ListenerEvent, context: &mut Context<'_, TenureMessage>) {
        match news {
            ListenerEvent::Session(ElectionEvent::Granted { candidate, .. }) => {
                self.believe(candidate.created, context)
            }
            ListenerEvent::Session(
                ElectionEvent::Gone { candidate, .. } | ElectionEvent::Moved { old: candidate, .. },
            ) if self.holds == Some(candidate.created) => self.stop(context),
            ListenerEvent::Session(ElectionEvent::SessionEnded { .. }) => self.begin(context),
            ListenerEvent::Candidacies(candidacies) => self.see(&candidacies, context),
            _ => {}
        }
    }

    /// The present leader, for traces only.
    fn observe(&mut self, observed: &Observed, context: &mut Context<'_, TenureMessage>) {
        match observed {
            Observed::Began(tenure, _) => self.leader = Some(context.named(&tenure.identity)),
            Observed::Ended(_) | Observed::Vacant { .. } => {
                let before = self.leader.take();
                if before.is_some_and(|leader| leader != self.me) {
                    context.detect();
                }
            }
            _ => {}
        }
    }
}

impl Actor<TenureMessage> for TenureContender {
    fn start(&mut self, context: &mut Context<'_, TenureMessage>) {
        let TenureContender { sessions, streams, .. } = *self;
        *self = TenureContender { me: context.me, sessions, streams, ..TenureContender::default() };
        self.begin(context);
    }

    fn receive(
        &mut self,
        _from: ProcessId,
        message: TenureMessage,
        context: &mut Context<'_, TenureMessage>,
    ) {
        if self.is_over(context.now()) {
            return self.begin(context);
        }
        let TenureMessage::Tell { stream, nth, what } = message else { return };
        if stream != self.stream || nth <= self.heard {
            return;
        }
        self.heard += 1;
        if nth > self.heard {
            context.say("has missed an event, and attaches at another server");
            return self.attach(context);
        }
        match what {
            StreamMessage::Answer { number, result } => self.answer(number, *result, context),
            StreamMessage::News(ListenerEvent::Observed(observed)) => {
                self.observe(&observed, context)
            }
            StreamMessage::News(news) => self.news(news, context),
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, TenureMessage>) {
        if alarm == "deadline" || self.is_over(context.now()) {
            context.say("could not renew in time");
            return self.begin(context);
        }
        match (alarm, self.session) {
            ("renew", Some(session)) if self.attached => {
                self.ask(Command::LeaseRenew(session), context);
                context.alarm("missed", PATIENCE);
            }
            ("attach" | "missed", _) => self.attach(context),
            _ => {}
        }
    }

    fn closed(&mut self, by: ProcessId, context: &mut Context<'_, TenureMessage>) {
        if by == self.server {
            self.attached = false;
            context.cancel("missed");
            context.alarm("attach", PAUSE);
        }
    }

    fn stops_at(&self) -> Option<&'static str> {
        Some("deadline")
    }

    fn view(&self) -> ProcessView {
        let role = match (self.holds, self.joined) {
            (Some(_), _) => ProcessRole::Leader,
            (None, true) => ProcessRole::Waiting,
            (None, false) => ProcessRole::Idle,
        };
        ProcessView::new(role)
            .leader(self.leader)
            .token(self.holds.map(|token| token.0 as u64))
            .fact("session", self.session.filter(|_| self.is_open).map(|session| session.0))
    }
}
