//! Listeners: streams that are connected to this member and wait for events of an election.
//!
//! Not replicated: every member notifies its own. Waiting costs an entry in a map; when something
//! happens in an election, only the listeners concerned are found and told, however many candidates it has.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use tenure_api::{Failure, KeyValue, LeaseId, Principal, Revision};

use super::{CandidacyView, ElectionEvent, Elections, EndReason, SessionEndReason, Tenure};
use crate::state::State;

/// A listener, numbered by the host.
pub type Listener = u64;

/// What a listener asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerInput {
    /// Say when this candidate holds, or that it is gone. One word, then nothing more.
    Await {
        /// The listener.
        listener: Listener,
        /// Where.
        name: Bytes,
        /// Whose key.
        key: Bytes,
        /// And its create revision.
        created: Revision,
    },
    /// Report the leader, and every change of it.
    Observe {
        /// The listener.
        listener: Listener,
        /// Where.
        name: Bytes,
        /// Only what happened after this revision; none to begin with how things are.
        after: Option<Revision>,
    },
    /// Say everything that concerns a session, from the moment on at which it is attached to.
    Attach {
        /// The listener.
        listener: Listener,
        /// Which session.
        session: LeaseId,
        /// The mark by which its attachment will be known.
        by: u64,
    },
    /// Say nothing more.
    Close(Listener),
}

impl ListenerInput {
    /// The listener.
    pub fn listener(&self) -> Listener {
        match self {
            ListenerInput::Await { listener, .. }
            | ListenerInput::Observe { listener, .. }
            | ListenerInput::Attach { listener, .. }
            | ListenerInput::Close(listener) => *listener,
        }
    }
}

/// What a listener is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerEvent {
    /// The candidate holds.
    Held,
    /// The candidate is gone; why, if that is known.
    Gone(Option<EndReason>),
    /// Of an election that is observed.
    Observed(Observed),
    /// Something happened to a session or one of its candidates.
    Session(ElectionEvent),
    /// This member skipped a part of the log; these are the session's candidates as they are now.
    Candidacies(Vec<CandidacyView>),
    /// The principal may not listen, or not any more. Nothing follows.
    Denied(Failure),
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
    /// There is no leader.
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
    /// The principal and its request: both are judged again when users or roles change.
    asked: BTreeMap<Listener, (Principal, ListenerInput)>,
    news: Vec<(Listener, ListenerEvent)>,
}

/// A listener that is attached to a session, or waits to be.
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
    Candidate(Bytes, Revision),
    /// Told of everything up to this revision.
    Election(Bytes, Revision),
    Session(LeaseId),
}

impl Listeners {
    /// Does what a listener asks.
    pub fn handle(&mut self, by: Principal, input: ListenerInput, state: &State) {
        let listener = input.listener();
        if let Err(failure) = state.permit_listen(&by, &input) {
            return self.news.push((listener, ListenerEvent::Denied(failure)));
        }
        if !matches!(input, ListenerInput::Close(_)) {
            self.asked.insert(listener, (by, input.clone()));
        }
        match input {
            ListenerInput::Await { listener, name, key, created } => {
                self.wait(listener, (name, key, created), &state.elections);
            }
            ListenerInput::Observe { listener, name, after } => {
                self.observing.entry(name.clone()).or_default().insert(listener);
                let told = self.catch_up(listener, &name, after, state);
                self.subjects.insert(listener, Subject::Election(name, told));
            }
            ListenerInput::Attach { listener, session, by } => {
                let attached = Attached { listener, by, stands: false };
                self.attached.entry(session).or_default().push(attached);
                self.subjects.insert(listener, Subject::Session(session));
            }
            ListenerInput::Close(listener) => self.close(listener),
        }
    }

    /// Users or roles changed: ends what principals may not listen to any more.
    pub fn judge(&mut self, state: &State) {
        let denied: Vec<(Listener, Failure)> = self
            .asked
            .iter()
            .filter(|(listener, _)| self.subjects.contains_key(listener))
            .filter_map(|(listener, (by, input))| {
                Some((*listener, state.permit_listen(by, input).err()?))
            })
            .collect();
        for (listener, failure) in denied {
            self.close(listener);
            self.news.push((listener, ListenerEvent::Denied(failure)));
        }
    }

    /// Tells the listeners concerned what was just applied.
    ///
    /// A member that catches up applies much at once. A listener that waits for a candidate hears only that it is
    /// gone if it was granted and lost in the same call.
    pub fn observe(&mut self, events: &[ElectionEvent]) {
        let gone: BTreeSet<(&Bytes, Revision)> = events
            .iter()
            .filter_map(|event| match event {
                ElectionEvent::Gone { candidate, .. }
                | ElectionEvent::Moved { old: candidate, .. } => {
                    Some((&candidate.key, candidate.created))
                }
                _ => None,
            })
            .collect();
        for event in events {
            match event {
                ElectionEvent::Granted { candidate, .. }
                    if gone.contains(&(&candidate.key, candidate.created)) =>
                {
                    self.tell_session(candidate.session(), event);
                }
                _ => self.tell(event),
            }
        }
    }

    /// The state was replaced by a snapshot: all listeners are told what they have missed.
    pub fn resync(&mut self, state: &State) {
        let waiting = std::mem::take(&mut self.waiting);
        for ((key, created), listeners) in waiting {
            for (listener, name) in listeners {
                self.wait(listener, (name, key.clone(), created), &state.elections);
            }
        }
        let sessions: Vec<LeaseId> = self.attached.keys().copied().collect();
        for session in sessions {
            match state.elections.session(session) {
                Some(_) => {
                    let candidates =
                        ListenerEvent::Candidacies(state.elections.candidacies_of(session));
                    for attached in self.attached.get(&session).into_iter().flatten() {
                        self.news.push((attached.listener, candidates.clone()));
                    }
                }
                None => {
                    let ended =
                        ElectionEvent::SessionEnded { session, why: SessionEndReason::NotFound };
                    self.ended(session, &ended);
                }
            }
        }
        let elections: Vec<(Listener, Bytes, Revision)> = self
            .subjects
            .iter()
            .filter_map(|(listener, subject)| match subject {
                Subject::Election(name, told) => Some((*listener, name.clone(), *told)),
                Subject::Candidate(..) | Subject::Session(_) => None,
            })
            .collect();
        for (listener, name, told) in elections {
            let told = self.catch_up(listener, &name, Some(told), state);
            self.subjects.insert(listener, Subject::Election(name, told));
        }
    }

    /// Takes what is to be told.
    pub fn take_news(&mut self) -> Vec<(Listener, ListenerEvent)> {
        std::mem::take(&mut self.news)
    }

    fn wait(
        &mut self,
        listener: Listener,
        candidate: (Bytes, Bytes, Revision),
        elections: &Elections,
    ) {
        let (name, key, created) = candidate;
        let known =
            elections.election(&name).and_then(|election| election.candidate(created, &key));
        match known {
            None if canary!(OwnKeyNotReread) => self.news.push((listener, ListenerEvent::Held)),
            None => self.news.push((listener, ListenerEvent::Gone(None))),
            Some(candidate) if candidate.told => self.news.push((listener, ListenerEvent::Held)),
            Some(_) => {
                self.subjects.insert(listener, Subject::Candidate(key.clone(), created));
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
        let election = state.elections.election(name).cloned().unwrap_or_default();
        let now = state.store.revision();
        let frozen = election.is_frozen();
        let vacant = Observed::Vacant { revision: now, frozen };
        let shown = election.leader().and_then(|leader| state.store.get(&leader.key)).cloned();
        let mut told = Vec::new();
        match after {
            None => {
                told.push(match election.tenures().last().filter(|tenure| tenure.end.is_none()) {
                    Some(tenure) => Observed::Began(tenure.clone(), shown),
                    None => vacant,
                })
            }
            Some(after) => {
                let gap = after < state.elections.forgotten_of(name);
                if gap {
                    told.push(Observed::Forgotten(after));
                }
                for tenure in election.tenures() {
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
        self.news.extend(told.into_iter().map(|seen| (listener, ListenerEvent::Observed(seen))));
        now
    }

    fn tell(&mut self, event: &ElectionEvent) {
        match event {
            ElectionEvent::Granted { candidate, .. } => {
                self.tell_waiting(&candidate.key, candidate.created, &ListenerEvent::Held);
                self.tell_session(candidate.session(), event);
            }
            ElectionEvent::Gone { candidate, why, .. } => {
                self.tell_waiting(
                    &candidate.key,
                    candidate.created,
                    &ListenerEvent::Gone(Some(*why)),
                );
                self.tell_session(candidate.session(), event);
            }
            ElectionEvent::Moved { candidate, old, why, .. } => {
                // It has another position now, and another token.
                self.tell_waiting(&old.key, old.created, &ListenerEvent::Gone(Some(*why)));
                self.tell_session(candidate.session(), event);
            }
            ElectionEvent::Drain { candidate, .. }
            | ElectionEvent::DrainCancelled { candidate, .. } => {
                self.tell_session(candidate.session(), event)
            }
            ElectionEvent::Began { name, tenure, kv } => {
                self.tell_observers(name, || Observed::Began(tenure.clone(), Some(kv.clone())));
            }
            ElectionEvent::Proclaimed { name, tenure, kv } => {
                self.tell_observers(name, || Observed::Proclaimed(tenure.clone(), kv.clone()));
            }
            ElectionEvent::TenureEnded { name, tenure } => {
                self.tell_observers(name, || Observed::Ended(tenure.clone()));
            }
            ElectionEvent::Vacant { name, revision, frozen } => {
                let (revision, frozen) = (*revision, *frozen);
                self.tell_observers(name, || Observed::Vacant { revision, frozen });
            }
            ElectionEvent::SessionEnded { session, .. } => self.ended(*session, event),
            ElectionEvent::Attached { session, by, .. } => self.attached(*session, *by, event),
            ElectionEvent::Delayed { .. } | ElectionEvent::DelayOver { .. } => {}
        }
    }

    /// A listener attached to a session: the one attached before is not any more. One whose turn to
    /// attach has not come is left alone: it may be next.
    fn attached(&mut self, session: LeaseId, by: u64, event: &ElectionEvent) {
        let Some(listeners) = self.attached.get_mut(&session) else { return };
        let replaced = ElectionEvent::SessionEnded { session, why: SessionEndReason::Replaced };
        for attached in listeners.extract_if(.., |known| known.stands && known.by != by) {
            self.subjects.remove(&attached.listener);
            self.news.push((attached.listener, ListenerEvent::Session(replaced.clone())));
        }
        for attached in listeners.iter_mut().filter(|known| known.by == by) {
            attached.stands = true;
            self.news.push((attached.listener, ListenerEvent::Session(event.clone())));
        }
        if listeners.is_empty() {
            self.attached.remove(&session);
        }
    }

    /// A session is over: the listener attached to it is told. One whose turn to attach has not come is left
    /// alone: what it opens may come after, also after a snapshot that does not have it yet.
    fn ended(&mut self, session: LeaseId, event: &ElectionEvent) {
        let Some(listeners) = self.attached.get_mut(&session) else { return };
        for attached in listeners.extract_if(.., |known| known.stands) {
            self.subjects.remove(&attached.listener);
            self.news.push((attached.listener, ListenerEvent::Session(event.clone())));
        }
        if listeners.is_empty() {
            self.attached.remove(&session);
        }
    }

    fn tell_waiting(&mut self, key: &Bytes, created: Revision, news: &ListenerEvent) {
        if self.waiting.is_empty() {
            return;
        }
        for (listener, _) in self.waiting.remove(&(key.clone(), created)).into_iter().flatten() {
            self.subjects.remove(&listener);
            self.news.push((listener, news.clone()));
        }
    }

    fn tell_session(&mut self, session: Option<LeaseId>, event: &ElectionEvent) {
        let Some(listeners) = session.and_then(|session| self.attached.get(&session)) else {
            return;
        };
        for attached in listeners {
            self.news.push((attached.listener, ListenerEvent::Session(event.clone())));
        }
    }

    fn tell_observers(&mut self, name: &Bytes, seen: impl Fn() -> Observed) {
        let Some(listeners) = self.observing.get(name) else { return };
        for listener in listeners {
            let seen = seen();
            if let Some(Subject::Election(_, told)) = self.subjects.get_mut(listener) {
                *told = (*told).max(seen.revision());
            }
            self.news.push((*listener, ListenerEvent::Observed(seen)));
        }
    }

    fn close(&mut self, listener: Listener) {
        self.asked.remove(&listener);
        match self.subjects.remove(&listener) {
            Some(Subject::Candidate(key, created)) => {
                let candidate = (key, created);
                if let Some(listeners) = self.waiting.get_mut(&candidate) {
                    listeners.retain(|(other, _)| *other != listener);
                    if listeners.is_empty() {
                        self.waiting.remove(&candidate);
                    }
                }
            }
            Some(Subject::Election(name, _)) => {
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
    /// The revision at which this happened: a listener that was told this and everything before it may go on after it.
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
