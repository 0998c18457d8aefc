//! Those who are connected to this member and wait for word of a line.
//!
//! Not replicated: every member tells its own. Waiting costs an entry in a map; when something
//! happens in a line only those it concerns are found and told, however many stand in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use tenure_api::{KeyValue, LeaseId, Revision};

use super::{Event, Queues, SessionEnd, Tenure, TenureEnd};
use crate::canary::Canary;
use crate::state::{PlaceInfo, State};

/// A listener, numbered by the house.
pub type Listener = u64;

/// What a listener asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineInput {
    /// Say when this place holds, or that it is gone. One word, then nothing more.
    Await {
        /// Who asks.
        listener: Listener,
        /// Where.
        name: Bytes,
        /// Whose key.
        key: Bytes,
        /// And its create revision.
        created: Revision,
    },
    /// Say who leads, and whenever that changes.
    Observe {
        /// Who asks.
        listener: Listener,
        /// Where.
        name: Bytes,
        /// Only what happened after this revision; none to begin with how things are.
        after: Option<Revision>,
    },
    /// Say everything that concerns a session, from the moment on at which it is attached to.
    Attach {
        /// Who asks.
        listener: Listener,
        /// Which session.
        session: LeaseId,
        /// The mark by which its attachment will be known.
        by: u64,
    },
    /// Say nothing more.
    Close(Listener),
}

impl LineInput {
    /// Who asks.
    pub fn listener(&self) -> Listener {
        match self {
            LineInput::Await { listener, .. }
            | LineInput::Observe { listener, .. }
            | LineInput::Attach { listener, .. }
            | LineInput::Close(listener) => *listener,
        }
    }
}

/// What a listener is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineNews {
    /// The place holds.
    Held,
    /// The place is gone; why, if that is known.
    Gone(Option<TenureEnd>),
    /// Of a line that is observed.
    Observed(Observed),
    /// Something happened to a session or one of its places.
    Session(Event),
    /// This member skipped a part of the log; these are the session's places as they are now.
    Places(Vec<PlaceInfo>),
}

/// What an observer sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// A tenure began, or lasts.
    Began(Tenure, Option<Arc<KeyValue>>),
    /// The leader shows something else.
    Proclaimed(Tenure, Arc<KeyValue>),
    /// A tenure ended.
    Ended(Tenure),
    /// Nobody leads.
    Vacant {
        /// Since when.
        revision: Revision,
        /// Because the name is frozen.
        frozen: bool,
    },
    /// Not everything that happened after this revision, up to which the observer knew everything, is
    /// known any more. What is known follows, and at its end how things stand.
    Forgotten(Revision),
}

/// All listeners of one member.
#[derive(Debug, Default)]
pub struct Listeners {
    waiting: BTreeMap<(Bytes, Revision), Vec<(Listener, Bytes)>>,
    observing: BTreeMap<Bytes, BTreeSet<Listener>>,
    attached: BTreeMap<LeaseId, Vec<Attached>>,
    subjects: BTreeMap<Listener, Subject>,
    news: Vec<(Listener, LineNews)>,
}

/// Who speaks for a session, or will.
#[derive(Clone, Copy, Debug)]
struct Attached {
    listener: Listener,
    by: u64,
    /// Its attachment has come about.
    stands: bool,
}

/// What a listener listens to.
#[derive(Clone, Debug)]
enum Subject {
    Place(Bytes, Revision),
    /// Told of everything up to this revision.
    Line(Bytes, Revision),
    Session(LeaseId),
}

impl Listeners {
    /// Does what a listener asks.
    pub fn handle(&mut self, input: LineInput, state: &State) {
        match input {
            LineInput::Await { listener, name, key, created } => {
                self.wait(listener, (name, key, created), &state.queues);
            }
            LineInput::Observe { listener, name, after } => {
                self.observing.entry(name.clone()).or_default().insert(listener);
                let told = self.catch_up(listener, &name, after, state);
                self.subjects.insert(listener, Subject::Line(name, told));
            }
            LineInput::Attach { listener, session, by } => {
                let attached = Attached { listener, by, stands: false };
                self.attached.entry(session).or_default().push(attached);
                self.subjects.insert(listener, Subject::Session(session));
            }
            LineInput::Close(listener) => self.close(listener),
        }
    }

    /// Tells those concerned what was just applied.
    ///
    /// A member that catches up applies much at once. Whoever waits for a place that was granted and
    /// then lost in the same breath hears only that it is gone.
    pub fn observe(&mut self, events: &[Event]) {
        let gone: BTreeSet<(&Bytes, Revision)> = events
            .iter()
            .filter_map(|event| match event {
                Event::Gone { place, .. } | Event::Moved { old: place, .. } => {
                    Some((&place.key, place.created))
                }
                _ => None,
            })
            .collect();
        for event in events {
            match event {
                Event::Granted { place, .. } if gone.contains(&(&place.key, place.created)) => {
                    self.tell_session(place.session(), event);
                }
                _ => self.tell(event),
            }
        }
    }

    /// The state was replaced by a snapshot: everybody is told what they have missed.
    pub fn resync(&mut self, state: &State) {
        let waiting = std::mem::take(&mut self.waiting);
        for ((key, created), listeners) in waiting {
            for (listener, name) in listeners {
                self.wait(listener, (name, key.clone(), created), &state.queues);
            }
        }
        let sessions: Vec<LeaseId> = self.attached.keys().copied().collect();
        for session in sessions {
            match state.queues.session(session) {
                Some(_) => {
                    let places = LineNews::Places(state.places_of(session));
                    for attached in self.attached.get(&session).into_iter().flatten() {
                        self.news.push((attached.listener, places.clone()));
                    }
                }
                None => {
                    let ended = Event::SessionEnded { session, why: SessionEnd::NotFound };
                    self.ended(session, &ended);
                }
            }
        }
        let lines: Vec<(Listener, Bytes, Revision)> = self
            .subjects
            .iter()
            .filter_map(|(listener, subject)| match subject {
                Subject::Line(name, told) => Some((*listener, name.clone(), *told)),
                Subject::Place(..) | Subject::Session(_) => None,
            })
            .collect();
        for (listener, name, told) in lines {
            let told = self.catch_up(listener, &name, Some(told), state);
            self.subjects.insert(listener, Subject::Line(name, told));
        }
    }

    /// Takes what is to be told.
    pub fn take_news(&mut self) -> Vec<(Listener, LineNews)> {
        std::mem::take(&mut self.news)
    }

    fn wait(&mut self, listener: Listener, place: (Bytes, Bytes, Revision), queues: &Queues) {
        let (name, key, created) = place;
        let known = queues.line(&name).and_then(|line| line.place(created, &key));
        match known {
            None if Canary::OwnKeyNotReread.sings() => self.news.push((listener, LineNews::Held)),
            None => self.news.push((listener, LineNews::Gone(None))),
            Some(place) if place.told => self.news.push((listener, LineNews::Held)),
            Some(_) => {
                self.subjects.insert(listener, Subject::Place(key.clone(), created));
                self.waiting.entry((key, created)).or_default().push((listener, name));
            }
        }
    }

    /// Tells an observer what happened after a revision, or how things are; answers up to where it
    /// knows everything.
    fn catch_up(
        &mut self,
        listener: Listener,
        name: &Bytes,
        after: Option<Revision>,
        state: &State,
    ) -> Revision {
        let line = state.queues.line(name).cloned().unwrap_or_default();
        let now = state.store.revision();
        let frozen = line.is_frozen();
        let vacant = Observed::Vacant { revision: now, frozen };
        let shown = line.leader().and_then(|leader| state.store.get(&leader.key)).cloned();
        let mut told = Vec::new();
        match after {
            None => told.push(match line.tenures().last().filter(|tenure| tenure.end.is_none()) {
                Some(tenure) => Observed::Began(tenure.clone(), shown),
                None => vacant,
            }),
            Some(after) => {
                let gap = after < state.queues.forgotten_of(name);
                if gap {
                    told.push(Observed::Forgotten(after));
                }
                for tenure in line.tenures() {
                    let lasts = tenure.end.is_none();
                    // What it shows may have changed since, and is kept in full only while it lasts.
                    let shown = shown.clone().filter(|_| lasts);
                    if tenure.from > after || (gap && lasts) {
                        let mut begun = tenure.clone();
                        begun.end = None;
                        told.push(Observed::Began(begun, shown));
                    } else if let Some(kv) = shown.filter(|kv| kv.mod_revision > after) {
                        told.push(Observed::Proclaimed(tenure.clone(), kv));
                    }
                    if tenure.end.is_some_and(|end| end.at > after) {
                        told.push(Observed::Ended(tenure.clone()));
                    }
                }
                // What it knew may be over: whatever was missed, it ends with how things stand.
                if let Some(Observed::Ended(_) | Observed::Forgotten(_)) = told.last() {
                    told.push(vacant);
                }
            }
        }
        self.news.extend(told.into_iter().map(|seen| (listener, LineNews::Observed(seen))));
        now
    }

    fn tell(&mut self, event: &Event) {
        match event {
            Event::Granted { place, .. } => {
                self.tell_waiting(&place.key, place.created, &LineNews::Held);
                self.tell_session(place.session(), event);
            }
            Event::Gone { place, why, .. } => {
                self.tell_waiting(&place.key, place.created, &LineNews::Gone(Some(*why)));
                self.tell_session(place.session(), event);
            }
            Event::Moved { place, old, why, .. } => {
                // It stands somewhere else now, with another token.
                self.tell_waiting(&old.key, old.created, &LineNews::Gone(Some(*why)));
                self.tell_session(place.session(), event);
            }
            Event::Drain { place, .. } | Event::DrainCancelled { place, .. } => {
                self.tell_session(place.session(), event)
            }
            Event::Began { name, tenure, kv } => {
                self.tell_observers(name, || Observed::Began(tenure.clone(), Some(kv.clone())));
            }
            Event::Proclaimed { name, tenure, kv } => {
                self.tell_observers(name, || Observed::Proclaimed(tenure.clone(), kv.clone()));
            }
            Event::Ended { name, tenure } => {
                self.tell_observers(name, || Observed::Ended(tenure.clone()));
            }
            Event::Vacant { name, revision, frozen } => {
                let (revision, frozen) = (*revision, *frozen);
                self.tell_observers(name, || Observed::Vacant { revision, frozen });
            }
            Event::SessionEnded { session, .. } => self.ended(*session, event),
            Event::Attached { session, by, .. } => self.attached(*session, *by, event),
            Event::Delayed { .. } | Event::DelayOver { .. } => {}
        }
    }

    /// Somebody attached to a session: whoever was attached before is not any more. One whose turn to
    /// attach has not come is left alone: it may be next.
    fn attached(&mut self, session: LeaseId, by: u64, event: &Event) {
        let Some(listeners) = self.attached.get_mut(&session) else { return };
        let replaced = Event::SessionEnded { session, why: SessionEnd::Replaced };
        for attached in listeners.extract_if(.., |known| known.stands && known.by != by) {
            self.subjects.remove(&attached.listener);
            self.news.push((attached.listener, LineNews::Session(replaced.clone())));
        }
        for attached in listeners.iter_mut().filter(|known| known.by == by) {
            attached.stands = true;
            self.news.push((attached.listener, LineNews::Session(event.clone())));
        }
        if listeners.is_empty() {
            self.attached.remove(&session);
        }
    }

    /// A session is over: whoever speaks for it hears so. One whose turn to attach has not come is left
    /// alone: what it opens may come after, also after a snapshot that does not have it yet.
    fn ended(&mut self, session: LeaseId, event: &Event) {
        let Some(listeners) = self.attached.get_mut(&session) else { return };
        for attached in listeners.extract_if(.., |known| known.stands) {
            self.subjects.remove(&attached.listener);
            self.news.push((attached.listener, LineNews::Session(event.clone())));
        }
        if listeners.is_empty() {
            self.attached.remove(&session);
        }
    }

    fn tell_waiting(&mut self, key: &Bytes, created: Revision, news: &LineNews) {
        if self.waiting.is_empty() {
            return;
        }
        for (listener, _) in self.waiting.remove(&(key.clone(), created)).into_iter().flatten() {
            self.subjects.remove(&listener);
            self.news.push((listener, news.clone()));
        }
    }

    fn tell_session(&mut self, session: Option<LeaseId>, event: &Event) {
        let Some(listeners) = session.and_then(|session| self.attached.get(&session)) else {
            return;
        };
        for attached in listeners {
            self.news.push((attached.listener, LineNews::Session(event.clone())));
        }
    }

    fn tell_observers(&mut self, name: &Bytes, seen: impl Fn() -> Observed) {
        let Some(listeners) = self.observing.get(name) else { return };
        for listener in listeners {
            let seen = seen();
            if let Some(Subject::Line(_, told)) = self.subjects.get_mut(listener) {
                *told = (*told).max(seen.revision());
            }
            self.news.push((*listener, LineNews::Observed(seen)));
        }
    }

    fn close(&mut self, listener: Listener) {
        match self.subjects.remove(&listener) {
            Some(Subject::Place(key, created)) => {
                let place = (key, created);
                if let Some(listeners) = self.waiting.get_mut(&place) {
                    listeners.retain(|(other, _)| *other != listener);
                    if listeners.is_empty() {
                        self.waiting.remove(&place);
                    }
                }
            }
            Some(Subject::Line(name, _)) => {
                if let Some(listeners) = self.observing.get_mut(&name) {
                    listeners.remove(&listener);
                    if listeners.is_empty() {
                        self.observing.remove(&name);
                    }
                }
            }
            Some(Subject::Session(session)) => {
                if let Some(listeners) = self.attached.get_mut(&session) {
                    listeners.retain(|other| other.listener != listener);
                    if listeners.is_empty() {
                        self.attached.remove(&session);
                    }
                }
            }
            None => {}
        }
    }
}

impl Observed {
    /// The revision at which this happened: whoever was told this and everything before it may go on after it.
    pub fn revision(&self) -> Revision {
        match self {
            // Of a tenure that has lasted for some time, with what it shows by now.
            Observed::Began(tenure, kv) => {
                kv.as_ref().map_or(tenure.from, |kv| kv.mod_revision.max(tenure.from))
            }
            Observed::Proclaimed(_, kv) => kv.mod_revision,
            Observed::Ended(tenure) => tenure.end.map_or(tenure.from, |end| end.at),
            Observed::Vacant { revision, .. } | Observed::Forgotten(revision) => *revision,
        }
    }
}
