//! All lines and sessions, and what happens to them.

use std::sync::Arc;

use bytes::Bytes;
use imbl::{OrdMap, OrdSet};
use tenure_api::{KeyValue, LeaseId, Revision};

use super::{
    Line, Place, Refusal, Session, SessionEnd, Tenure, TenureEnd, Transfer, line::is_frost,
};
use crate::canary::Canary;

/// Lines in which nobody stands that are kept for their history; the longest idle go first.
const IDLE_LINES_MAX: usize = 1000;
/// Bytes of a leader's value that its tenure remembers.
const TENURE_VALUE_BYTES_MAX: usize = 1024;
/// Bytes of an identity that is taken from a value.
const STOCK_IDENTITY_BYTES_MAX: usize = 128;

/// Everything about elections and locks that all members agree on. Cloning is O(1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    pub(super) lines: OrdMap<Bytes, Arc<Line>>,
    pub(super) sessions: OrdMap<LeaseId, Arc<Session>>,
    /// Sessions whose stop was not confirmed, and the lines that remember it.
    pub(super) delays: OrdMap<LeaseId, Delay>,
    pub(super) idle: OrdSet<(Revision, Bytes)>,
    /// Up to which revision lines that were forgotten altogether had tenures.
    pub(super) forgotten: Revision,
}

/// A session that held, went, and may not have noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// How long it lived without a sign of life.
    pub ttl_ms: u64,
    /// The revision at which it last lost something. A verdict that the time is over says which time it
    /// means.
    pub since: Revision,
    /// The lines that remember it, and the tokens it had there last.
    pub names: Vec<(Bytes, Revision)>,
}

/// How a place goes.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// Why.
    pub why: TenureEnd,
    /// Whoever had it is known to have stopped.
    pub stopped: bool,
    /// It comes back at once, at the end of the line.
    pub returns: bool,
    /// The revision at which it goes.
    pub at: Revision,
    /// The clock then; for people.
    pub at_ms: u64,
}

/// What must be done before a line is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing more.
    Done,
    /// These must let others pass.
    PutBehind(Vec<Bytes>),
    /// The successor takes over: the leader is gone or has drained.
    Succeed(Transfer),
}

/// What happened in a line or to a session, in order, for those who are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A place holds, and may be told.
    Granted {
        /// Where.
        name: Bytes,
        /// Who.
        place: Arc<Place>,
        /// Who led before; empty if nobody is known.
        predecessor: String,
    },
    /// A place is gone.
    Gone {
        /// Where.
        name: Bytes,
        /// What it was.
        place: Arc<Place>,
        /// Why.
        why: TenureEnd,
    },
    /// A place was put behind others.
    Moved {
        /// Where.
        name: Bytes,
        /// As it is now.
        place: Arc<Place>,
        /// As it was.
        old: Arc<Place>,
        /// Why.
        why: TenureEnd,
    },
    /// The leader is asked to make room for another.
    Drain {
        /// Where.
        name: Bytes,
        /// The leader.
        place: Arc<Place>,
        /// For whom.
        successor: String,
        /// In which time.
        within_ms: u64,
    },
    /// It need not any more.
    DrainCancelled {
        /// Where.
        name: Bytes,
        /// The leader.
        place: Arc<Place>,
    },
    /// Somebody leads.
    Began {
        /// Where.
        name: Bytes,
        /// Its tenure.
        tenure: Tenure,
        /// Its key as it is then.
        kv: Arc<KeyValue>,
    },
    /// The leader shows something else.
    Proclaimed {
        /// Where.
        name: Bytes,
        /// Its tenure.
        tenure: Tenure,
        /// Its key as it is then.
        kv: Arc<KeyValue>,
    },
    /// A tenure ended.
    Ended {
        /// Where.
        name: Bytes,
        /// Which.
        tenure: Tenure,
    },
    /// Nobody leads.
    Vacant {
        /// Where.
        name: Bytes,
        /// Since when.
        revision: Revision,
        /// Because the name is frozen.
        frozen: bool,
    },
    /// Somebody attached to a session, for the first time or again.
    Attached {
        /// Which.
        session: LeaseId,
        /// For which time.
        attachment: u64,
        /// The mark of whoever did.
        by: u64,
    },
    /// A session is no more.
    SessionEnded {
        /// Which.
        session: LeaseId,
        /// Why.
        why: SessionEnd,
    },
    /// A session's stop is not confirmed: its time begins to run out.
    Delayed {
        /// Which.
        session: LeaseId,
    },
    /// Nobody waits for a session's stop any more.
    DelayOver {
        /// Which.
        session: LeaseId,
    },
}

impl Queues {
    /// The line under a name.
    pub fn line(&self, name: &[u8]) -> Option<&Arc<Line>> {
        self.lines.get(name)
    }

    /// All lines, in order of their names.
    pub fn lines(&self) -> impl Iterator<Item = (&Bytes, &Arc<Line>)> {
        self.lines.iter()
    }

    /// All lines from a name on.
    pub fn lines_from(&self, name: &Bytes) -> impl Iterator<Item = (&Bytes, &Arc<Line>)> {
        self.lines.range(name.clone()..)
    }

    /// Whether there is any line at all.
    pub fn has_lines(&self) -> bool {
        !self.lines.is_empty()
    }

    /// A session.
    pub fn session(&self, id: LeaseId) -> Option<&Arc<Session>> {
        self.sessions.get(&id)
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = (LeaseId, &Arc<Session>)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// How many sessions there are.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Sessions whose stop is not confirmed.
    pub fn delays(&self) -> impl Iterator<Item = (LeaseId, &Delay)> {
        self.delays.iter().map(|(session, delay)| (*session, delay))
    }

    /// A session to change.
    pub(crate) fn session_mut(&mut self, id: LeaseId) -> Option<&mut Session> {
        self.sessions.get_mut(&id).map(Arc::make_mut)
    }

    pub(crate) fn add_session(&mut self, id: LeaseId, session: Session) {
        self.sessions.insert(id, Arc::new(session));
    }

    pub(crate) fn remove_session(&mut self, id: LeaseId) -> Option<Arc<Session>> {
        self.sessions.remove(&id)
    }

    pub(crate) fn line_mut(&mut self, name: &[u8]) -> Option<&mut Line> {
        self.lines.get_mut(name).map(Arc::make_mut)
    }

    /// A line begins, with all keys that are there already.
    pub(crate) fn begin_line(&mut self, name: Bytes, places: impl IntoIterator<Item = Place>) {
        // There may have been such a line before.
        let mut line = Line { forgotten: self.forgotten, ..Line::default() };
        for place in places {
            line.insert(place);
        }
        self.lines.insert(name, Arc::new(line));
    }

    /// Somebody takes a place.
    pub(crate) fn insert(&mut self, name: &Bytes, place: Place) {
        let session = place.session();
        let Some(line) = self.lines.get_mut(name).map(Arc::make_mut) else { return };
        if let Some(since) = line.idle_since.take() {
            self.idle.remove(&(since, name.clone()));
        }
        line.insert(place);
        if let Some(session) = session.and_then(|id| self.session_mut(id)) {
            session.places.insert(name.clone());
        }
    }

    /// A place goes.
    pub(crate) fn remove(
        &mut self,
        name: &Bytes,
        (created, key): (Revision, &[u8]),
        ending: Ending,
        events: &mut Vec<Event>,
    ) -> Option<Arc<Place>> {
        let line = self.lines.get_mut(name).map(Arc::make_mut)?;
        let place = line.remove(created, key)?;
        if place.holds()
            && line.tenure.as_ref().is_some_and(|tenure| tenure.token == created)
            && let Some(tenure) =
                line.end_tenure(ending.at, ending.at_ms, (ending.why, ending.stopped))
        {
            events.push(Event::Ended { name: name.clone(), tenure });
        }
        let unsure = place.told && !ending.stopped && ending.why != TenureEnd::Expired;
        if let Some(session) = place.session() {
            if let Some(known) = self.session_mut(session) {
                known.places.remove(name);
            }
            let ttl_ms = self.sessions.get(&session).map_or(0, |session| session.ttl_ms);
            if unsure && !Canary::DelayForgotten.sings() {
                self.begin_delay(name, (session, place.created), ttl_ms, ending.at, events);
            }
        }
        if !ending.returns {
            let gone = Event::Gone { name: name.clone(), place: place.clone(), why: ending.why };
            events.push(gone);
        }
        Some(place)
    }

    /// Who wants no overlap waits until whoever held with this token has surely stopped.
    pub(crate) fn begin_delay(
        &mut self,
        name: &Bytes,
        (session, token): (LeaseId, Revision),
        ttl_ms: u64,
        at: Revision,
        events: &mut Vec<Event>,
    ) {
        let Some(line) = self.line_mut(name) else { return };
        if !line.delays.contains(&session) {
            line.delays.push(session);
        }
        let delay = self.delays.entry(session).or_default();
        match delay.names.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = token,
            None => delay.names.push((name.clone(), token)),
        }
        delay.ttl_ms = delay.ttl_ms.max(ttl_ms);
        delay.since = at;
        // Again, if it was delayed already: its time counts from now.
        events.push(Event::Delayed { session });
    }

    /// A session's work has surely stopped, everywhere or with one token, because that was `confirmed` or
    /// enough time has passed; answers the lines to settle.
    pub(crate) fn end_delay(
        &mut self,
        session: LeaseId,
        only: Option<(&Bytes, Revision)>,
        confirmed: bool,
        events: &mut Vec<Event>,
    ) -> Vec<Bytes> {
        let Some(delay) = self.delays.get_mut(&session) else { return vec![] };
        let over = |(name, token): &mut (Bytes, Revision)| {
            only.is_none_or(|(only, with)| name == only && *token == with)
        };
        let ended: Vec<(Bytes, Revision)> = delay.names.extract_if(.., over).collect();
        if delay.names.is_empty() {
            self.delays.remove(&session);
            events.push(Event::DelayOver { session });
        }
        for (name, token) in &ended {
            if let Some(line) = self.line_mut(name) {
                line.delays.retain(|delayed| *delayed != session);
                if confirmed {
                    line.mark_stopped(*token);
                }
            }
        }
        ended.into_iter().map(|(name, _)| name).collect()
    }

    /// Whether a session's stop is waited for, and has been since this revision and no later one.
    pub(crate) fn is_delayed_since(&self, session: LeaseId, since: Revision) -> bool {
        self.delays.get(&session).is_some_and(|delay| delay.since == since)
    }

    /// Up to which revision tenures under this name may be missing: what was forgotten of others does not
    /// matter to a line that is there.
    pub fn forgotten_of(&self, name: &[u8]) -> Revision {
        self.line(name).map_or(self.forgotten, |line| line.forgotten)
    }

    /// Nothing is known of any tenure up to this revision.
    pub(crate) fn forget_until(&mut self, revision: Revision) {
        self.forgotten = self.forgotten.max(revision);
        let names: Vec<Bytes> = self.lines.keys().cloned().collect();
        for name in names {
            if let Some(line) = self.line_mut(&name) {
                line.forgotten = line.forgotten.max(revision);
            }
        }
    }

    /// A session whose stop is not confirmed.
    pub fn delay(&self, session: LeaseId) -> Option<&Delay> {
        self.delays.get(&session)
    }

    /// The next thing to do in a line before it can be settled.
    pub(crate) fn next_step(&mut self, name: &Bytes, events: &mut Vec<Event>) -> Step {
        let Some(line) = self.lines.get_mut(name).map(Arc::make_mut) else { return Step::Done };
        if let Some(transfer) = line.transfer {
            let leader = line.leader().filter(|leader| leader.created == transfer.from);
            // One that has become unwell would be passed over, and perhaps nobody lead in the end.
            let successor = line.place_of(transfer.to).filter(|to| to.wants_to_lead());
            match (successor, leader) {
                (None, _) => self.call_off(name, events),
                (Some(_), None) => {
                    line.transfer = None;
                    line.chosen = Some(transfer.to).filter(|_| transfer.why.is_choice());
                    return Step::Succeed(transfer);
                }
                (Some(_), Some(_)) => {}
            }
        }
        let Some(line) = self.lines.get(name) else { return Step::Done };
        match line.passed_over() {
            Some(key) => Step::PutBehind(vec![key]),
            None => Step::Done,
        }
    }

    /// Nobody is to take over, and whoever leads may stay.
    pub(crate) fn call_off(&mut self, name: &Bytes, events: &mut Vec<Event>) {
        let Some(line) = self.line_mut(name) else { return };
        let Some(transfer) = line.transfer.take() else { return };
        if let Some(place) = line.with_token(transfer.from).filter(|leader| leader.holds()).cloned()
        {
            events.push(Event::DrainCancelled { name: name.clone(), place });
        }
    }

    /// Decides who holds, once nobody needs to be moved any more.
    pub(crate) fn settle(
        &mut self,
        name: &Bytes,
        (revision, ms): (Revision, u64),
        kv_of: &dyn Fn(&Bytes) -> Option<Arc<KeyValue>>,
        events: &mut Vec<Event>,
    ) {
        let Some(line) = self.lines.get_mut(name).map(Arc::make_mut) else { return };
        line.give_slots();
        let leader = line.leader().cloned();
        line.chosen = line.chosen.filter(|chosen| {
            leader.as_ref().is_some_and(|leader| leader.session() == Some(*chosen))
        });
        let vacated = std::mem::take(&mut line.vacated);
        match leader {
            Some(leader) => {
                let known = line.tenure.as_ref().is_some_and(|t| t.token == leader.created);
                if let Some(kv) = kv_of(&leader.key).filter(|_| !known) {
                    let identity = identity_of(&self.sessions, &leader, &kv);
                    let tenure = Tenure {
                        identity,
                        token: leader.created,
                        value: shortened(&kv.value, TENURE_VALUE_BYTES_MAX),
                        from: revision,
                        from_ms: ms,
                        end: None,
                    };
                    line.tenure = Some(tenure.clone());
                    events.push(Event::Began { name: name.clone(), tenure, kv });
                }
            }
            None if vacated => {
                let frozen = line.places.first().is_some_and(|first| is_frost(first));
                events.push(Event::Vacant { name: name.clone(), revision, frozen });
            }
            None => {}
        }
        self.tell_holders(name, events);
        self.note_idle(name, revision);
    }

    /// Tells those who hold and have not been told, unless they must wait.
    fn tell_holders(&mut self, name: &Bytes, events: &mut Vec<Event>) {
        let Some(line) = self.lines.get(name) else { return };
        if Canary::QueueStuck.sings() && !line.predecessor().is_empty() {
            return;
        }
        // Who holds stands before who does not.
        let holders = line.places.iter().take_while(|place| place.holds());
        let waiting: Vec<_> = holders.filter(|place| !place.told).cloned().collect();
        for place in waiting {
            let together = match &place.candidate {
                Some(candidate) => &candidate.together[..],
                None => std::slice::from_ref(name),
            };
            if !together.iter().all(|name| self.is_ready(name, &place)) {
                continue;
            }
            for name in together {
                let Some(line) = self.lines.get_mut(name).map(Arc::make_mut) else { continue };
                let predecessor = line.predecessor();
                let own = match place.session() {
                    Some(session) => line.place_of(session).cloned(),
                    None => Some(place.clone()),
                };
                let Some(told) =
                    own.and_then(|own| line.place_mut(own.created, &own.key)).map(|own| {
                        own.told = true;
                        own.clone()
                    })
                else {
                    continue;
                };
                let mut place = Arc::new(told);
                if Canary::TokenReused.sings()
                    && let Some(before) =
                        line.tenures().filter(|tenure| tenure.end.is_some()).last()
                {
                    Arc::make_mut(&mut place).created = before.token;
                }
                events.push(Event::Granted { name: name.clone(), place, predecessor });
            }
        }
    }

    /// Whether the owner of a place holds in this line, and need not wait for anybody's stop.
    fn is_ready(&self, name: &Bytes, place: &Place) -> bool {
        let Some(line) = self.lines.get(name) else { return false };
        let Some(candidate) = &place.candidate else { return true };
        let holds = line.place_of(candidate.session).is_some_and(|own| own.holds());
        holds && !(candidate.no_overlap && line.is_delayed())
    }

    /// Keeps a bounded number of lines in which nobody stands.
    fn note_idle(&mut self, name: &Bytes, revision: Revision) {
        let Some(line) = self.lines.get_mut(name) else { return };
        if !line.is_idle() || line.idle_since.is_some() {
            return;
        }
        Arc::make_mut(line).idle_since = Some(revision);
        self.idle.insert((revision, name.clone()));
        while self.idle.len() > IDLE_LINES_MAX {
            if let Some((_, oldest)) = self.idle.remove_min() {
                let line = self.lines.remove(&oldest);
                let ended = line.and_then(|line| line.history.back()?.end).map(|end| end.at);
                self.forgotten = self.forgotten.max(ended.unwrap_or_default());
            }
        }
    }

    /// The value of a place changed, or the lease it hangs on.
    pub(crate) fn proclaimed(&mut self, name: &Bytes, kv: &Arc<KeyValue>, events: &mut Vec<Event>) {
        let Some(line) = self.lines.get_mut(name) else { return };
        // Somebody may have put the key of a client of etcd's under another lease: it lives with that one now.
        let retied = line
            .place(kv.create_revision, &kv.key)
            .is_some_and(|place| place.candidate.is_none() && place.lease != kv.lease);
        if let Some(place) =
            retied.then(|| Arc::make_mut(line).place_mut(kv.create_revision, &kv.key)).flatten()
        {
            place.lease = kv.lease;
        }
        let leads = line.leader().is_some_and(|leader| leader.key == kv.key);
        if !leads {
            return;
        }
        let line = Arc::make_mut(line);
        if let Some(tenure) = &mut line.tenure {
            tenure.value = shortened(&kv.value, TENURE_VALUE_BYTES_MAX);
            let (tenure, kv) = (tenure.clone(), kv.clone());
            events.push(Event::Proclaimed { name: name.clone(), tenure, kv });
        }
    }

    /// A live line above or below a name, which would make each count the other's keys.
    pub(crate) fn check_nesting(&self, name: &Bytes) -> Result<(), Refusal> {
        let lives = |line: &Arc<Line>| !line.places.is_empty();
        let above = super::names_above(name).any(|above| self.lines.get(above).is_some_and(lives));
        let mut prefix = name.to_vec();
        prefix.push(b'/');
        let prefix = Bytes::from(prefix);
        let below = self
            .lines
            .range(prefix.clone()..)
            .take_while(|(below, _)| below.starts_with(&prefix))
            .any(|(_, line)| lives(line));
        if above || below { Err(Refusal::NestedName) } else { Ok(()) }
    }

    /// Who stands at a place, for people.
    pub fn identity_of(&self, place: &Place, kv: &KeyValue) -> String {
        identity_of(&self.sessions, place, kv)
    }
}

fn identity_of(sessions: &OrdMap<LeaseId, Arc<Session>>, place: &Place, kv: &KeyValue) -> String {
    match place.session().and_then(|session| sessions.get(&session)) {
        Some(session) => session.identity.clone(),
        None => {
            let value = shortened(&kv.value, STOCK_IDENTITY_BYTES_MAX);
            String::from_utf8_lossy(&value).into_owned()
        }
    }
}

fn shortened(value: &Bytes, bytes_max: usize) -> Bytes {
    Bytes::copy_from_slice(&value[..value.len().min(bytes_max)])
}
