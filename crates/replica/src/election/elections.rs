//! All elections and sessions, and what happens to them.

use std::sync::Arc;

use bytes::Bytes;
use imbl::{OrdMap, OrdSet};
use tenure_api::{KeyValue, LeaseId, Revision};

use super::{
    Candidate, Election, EndReason, Refusal, Session, SessionEndReason, Tenure, Transfer,
    candidates::is_frost,
};
use crate::canary::Canary;

/// Elections without candidates that are kept for their history; the longest idle go first.
const IDLE_ELECTIONS_MAX: usize = 1000;
/// Bytes of a leader's value that its tenure remembers.
const TENURE_VALUE_BYTES_MAX: usize = 1024;
/// Bytes of an identity that is taken from a value.
const STOCK_IDENTITY_BYTES_MAX: usize = 128;

/// Everything about elections and locks that all members agree on. Cloning is O(1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elections {
    pub(super) elections: OrdMap<Bytes, Arc<Election>>,
    pub(super) sessions: OrdMap<LeaseId, Arc<Session>>,
    /// Sessions whose stop was not confirmed, and the elections that remember it.
    pub(super) delays: OrdMap<LeaseId, Delay>,
    pub(super) idle: OrdSet<(Revision, Bytes)>,
    /// Up to which revision elections that were forgotten altogether had tenures.
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
    /// The elections that remember it, and the tokens it had there last.
    pub names: Vec<(Bytes, Revision)>,
}

/// How a candidate goes.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Why.
    pub why: EndReason,
    /// Its process is known to have stopped.
    pub stopped: bool,
    /// It comes back at once, as the last candidate.
    pub returns: bool,
    /// The revision at which it goes.
    pub at: Revision,
    /// The clock then; for people.
    pub at_ms: u64,
}

/// What must be done before an election is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing more.
    Done,
    /// These must let others pass.
    PutBehind(Vec<Bytes>),
    /// The successor takes over: the leader is gone or has drained.
    Succeed(Transfer),
}

/// What happened in an election or to a session, in order, for the listeners concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionEvent {
    /// A candidate holds, and may be told.
    Granted {
        /// Where.
        name: Bytes,
        /// The candidate.
        candidate: Arc<Candidate>,
        /// The previous leader's identity; empty if none is known.
        predecessor: String,
    },
    /// A candidate is gone.
    Gone {
        /// Where.
        name: Bytes,
        /// What it was.
        candidate: Arc<Candidate>,
        /// Why.
        why: EndReason,
    },
    /// A candidate was put behind others.
    Moved {
        /// Where.
        name: Bytes,
        /// As it is now.
        candidate: Arc<Candidate>,
        /// As it was.
        old: Arc<Candidate>,
        /// Why.
        why: EndReason,
    },
    /// The leader is asked to make room for another.
    Drain {
        /// Where.
        name: Bytes,
        /// The leader.
        candidate: Arc<Candidate>,
        /// The successor.
        successor: String,
        /// In which time.
        within_ms: u64,
    },
    /// It need not any more.
    DrainCancelled {
        /// The leader need not make room any more.
        name: Bytes,
        /// The leader.
        candidate: Arc<Candidate>,
    },
    /// A tenure began.
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
    TenureEnded {
        /// Where.
        name: Bytes,
        /// Which.
        tenure: Tenure,
    },
    /// There is no leader.
    Vacant {
        /// Where.
        name: Bytes,
        /// Since when.
        revision: Revision,
        /// Because the name is frozen.
        frozen: bool,
    },
    /// A stream attached to a session, for the first time or again.
    Attached {
        /// Which.
        session: LeaseId,
        /// For which time.
        attachment: u64,
        /// The mark of this attachment.
        by: u64,
    },
    /// A session is no more.
    SessionEnded {
        /// Which.
        session: LeaseId,
        /// Why.
        why: SessionEndReason,
    },
    /// A session's stop is not confirmed: its time begins to run out.
    Delayed {
        /// Which.
        session: LeaseId,
    },
    /// The wait for a session's stop is over.
    DelayOver {
        /// Which.
        session: LeaseId,
    },
}

impl Elections {
    /// The election under a name.
    pub fn election(&self, name: &[u8]) -> Option<&Arc<Election>> {
        self.elections.get(name)
    }

    /// All elections, in order of their names.
    pub fn elections(&self) -> impl Iterator<Item = (&Bytes, &Arc<Election>)> {
        self.elections.iter()
    }

    /// All elections from a name on.
    pub fn elections_from(&self, name: &Bytes) -> impl Iterator<Item = (&Bytes, &Arc<Election>)> {
        self.elections.range(name.clone()..)
    }

    /// Whether there is any election at all.
    pub fn has_elections(&self) -> bool {
        !self.elections.is_empty()
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

    pub(crate) fn election_mut(&mut self, name: &[u8]) -> Option<&mut Election> {
        self.elections.get_mut(name).map(Arc::make_mut)
    }

    /// An election begins, with all keys that are there already.
    pub(crate) fn begin_election(
        &mut self,
        name: Bytes,
        candidates: impl IntoIterator<Item = Candidate>,
    ) {
        // There may have been such an election before.
        let mut election = Election { forgotten: self.forgotten, ..Election::default() };
        for candidate in candidates {
            election.insert(candidate);
        }
        self.elections.insert(name, Arc::new(election));
    }

    /// Adds a candidate.
    pub(crate) fn insert(&mut self, name: &Bytes, candidate: Candidate) {
        let session = candidate.session();
        let Some(election) = self.elections.get_mut(name).map(Arc::make_mut) else { return };
        if let Some(since) = election.idle_since.take() {
            self.idle.remove(&(since, name.clone()));
        }
        election.insert(candidate);
        if let Some(session) = session.and_then(|id| self.session_mut(id)) {
            session.candidates.insert(name.clone());
        }
    }

    /// A candidate goes.
    pub(crate) fn remove(
        &mut self,
        name: &Bytes,
        (created, key): (Revision, &[u8]),
        ending: Departure,
        events: &mut Vec<ElectionEvent>,
    ) -> Option<Arc<Candidate>> {
        let election = self.elections.get_mut(name).map(Arc::make_mut)?;
        let candidate = election.remove(created, key)?;
        if candidate.holds()
            && election.tenure.as_ref().is_some_and(|tenure| tenure.token == created)
            && let Some(tenure) =
                election.end_tenure(ending.at, ending.at_ms, (ending.why, ending.stopped))
        {
            events.push(ElectionEvent::TenureEnded { name: name.clone(), tenure });
        }
        let unsure = candidate.told && !ending.stopped && ending.why != EndReason::Expired;
        if let Some(session) = candidate.session() {
            if let Some(known) = self.session_mut(session) {
                known.candidates.remove(name);
            }
            let ttl_ms = self.sessions.get(&session).map_or(0, |session| session.ttl_ms);
            if unsure && !Canary::DelayForgotten.sings() {
                self.begin_delay(name, (session, candidate.created), ttl_ms, ending.at, events);
            }
        }
        if !ending.returns {
            let gone = ElectionEvent::Gone {
                name: name.clone(),
                candidate: candidate.clone(),
                why: ending.why,
            };
            events.push(gone);
        }
        Some(candidate)
    }

    /// Candidates that want no overlap wait until the holder of this token has surely stopped.
    pub(crate) fn begin_delay(
        &mut self,
        name: &Bytes,
        (session, token): (LeaseId, Revision),
        ttl_ms: u64,
        at: Revision,
        events: &mut Vec<ElectionEvent>,
    ) {
        let Some(election) = self.election_mut(name) else { return };
        if !election.delays.contains(&session) {
            election.delays.push(session);
        }
        let delay = self.delays.entry(session).or_default();
        match delay.names.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = token,
            None => delay.names.push((name.clone(), token)),
        }
        delay.ttl_ms = delay.ttl_ms.max(ttl_ms);
        delay.since = at;
        // Again, if it was delayed already: its time counts from now.
        events.push(ElectionEvent::Delayed { session });
    }

    /// A session's work has surely stopped, everywhere or with one token, because that was `confirmed` or
    /// enough time has passed; answers the elections to settle.
    pub(crate) fn end_delay(
        &mut self,
        session: LeaseId,
        only: Option<(&Bytes, Revision)>,
        confirmed: bool,
        events: &mut Vec<ElectionEvent>,
    ) -> Vec<Bytes> {
        let Some(delay) = self.delays.get_mut(&session) else { return vec![] };
        let over = |(name, token): &mut (Bytes, Revision)| {
            only.is_none_or(|(only, with)| name == only && *token == with)
        };
        let ended: Vec<(Bytes, Revision)> = delay.names.extract_if(.., over).collect();
        if delay.names.is_empty() {
            self.delays.remove(&session);
            events.push(ElectionEvent::DelayOver { session });
        }
        for (name, token) in &ended {
            if let Some(election) = self.election_mut(name) {
                election.delays.retain(|delayed| *delayed != session);
                if confirmed {
                    election.mark_stopped(*token);
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
    /// matter to an election that is there.
    pub fn forgotten_of(&self, name: &[u8]) -> Revision {
        self.election(name).map_or(self.forgotten, |election| election.forgotten)
    }

    /// Nothing is known of any tenure up to this revision.
    pub(crate) fn forget_until(&mut self, revision: Revision) {
        self.forgotten = self.forgotten.max(revision);
        let names: Vec<Bytes> = self.elections.keys().cloned().collect();
        for name in names {
            if let Some(election) = self.election_mut(&name) {
                election.forgotten = election.forgotten.max(revision);
            }
        }
    }

    /// A session whose stop is not confirmed.
    pub fn delay(&self, session: LeaseId) -> Option<&Delay> {
        self.delays.get(&session)
    }

    /// The next thing to do in an election before it can be settled.
    pub(crate) fn next_step(&mut self, name: &Bytes, events: &mut Vec<ElectionEvent>) -> Step {
        let Some(election) = self.elections.get_mut(name).map(Arc::make_mut) else {
            return Step::Done;
        };
        if let Some(transfer) = election.transfer {
            let leader = election.leader().filter(|leader| leader.created == transfer.from);
            // A successor that has become unhealthy would be passed over, and the name might end up without a leader.
            let successor = election.candidate_of(transfer.to).filter(|to| to.wants_to_lead());
            match (successor, leader) {
                (None, _) => self.call_off(name, events),
                (Some(_), None) => {
                    election.transfer = None;
                    election.chosen = Some(transfer.to).filter(|_| transfer.why.is_choice());
                    return Step::Succeed(transfer);
                }
                (Some(_), Some(_)) => {}
            }
        }
        let Some(election) = self.elections.get(name) else { return Step::Done };
        match election.passed_over() {
            Some(key) => Step::PutBehind(vec![key]),
            None => Step::Done,
        }
    }

    /// Calls the transfer off; the leader may stay.
    pub(crate) fn call_off(&mut self, name: &Bytes, events: &mut Vec<ElectionEvent>) {
        let Some(election) = self.election_mut(name) else { return };
        let Some(transfer) = election.transfer.take() else { return };
        if let Some(candidate) =
            election.with_token(transfer.from).filter(|leader| leader.holds()).cloned()
        {
            events.push(ElectionEvent::DrainCancelled { name: name.clone(), candidate });
        }
    }

    /// Decides which candidates hold, once none needs to be moved any more.
    pub(crate) fn settle(
        &mut self,
        name: &Bytes,
        (revision, ms): (Revision, u64),
        kv_of: &dyn Fn(&Bytes) -> Option<Arc<KeyValue>>,
        events: &mut Vec<ElectionEvent>,
    ) {
        let Some(election) = self.elections.get_mut(name).map(Arc::make_mut) else { return };
        election.give_slots();
        let leader = election.leader().cloned();
        election.chosen = election.chosen.filter(|chosen| {
            leader.as_ref().is_some_and(|leader| leader.session() == Some(*chosen))
        });
        let vacated = std::mem::take(&mut election.vacated);
        match leader {
            Some(leader) => {
                let known = election.tenure.as_ref().is_some_and(|t| t.token == leader.created);
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
                    election.tenure = Some(tenure.clone());
                    events.push(ElectionEvent::Began { name: name.clone(), tenure, kv });
                }
            }
            None if vacated => {
                let frozen = election.candidates.first().is_some_and(|first| is_frost(first));
                events.push(ElectionEvent::Vacant { name: name.clone(), revision, frozen });
            }
            None => {}
        }
        self.tell_holders(name, events);
        self.note_idle(name, revision);
    }

    /// Notifies the holders that have not been told, unless they must wait.
    fn tell_holders(&mut self, name: &Bytes, events: &mut Vec<ElectionEvent>) {
        let Some(election) = self.elections.get(name) else { return };
        if Canary::ElectionStuck.sings() && !election.predecessor().is_empty() {
            return;
        }
        // Holders come before candidates that wait.
        let holders = election.candidates.iter().take_while(|candidate| candidate.holds());
        let waiting: Vec<_> = holders.filter(|candidate| !candidate.told).cloned().collect();
        for candidate in waiting {
            let together = match &candidate.spec {
                Some(spec) => &spec.together[..],
                None => std::slice::from_ref(name),
            };
            if !together.iter().all(|name| self.is_ready(name, &candidate)) {
                continue;
            }
            for name in together {
                let Some(election) = self.elections.get_mut(name).map(Arc::make_mut) else {
                    continue;
                };
                let predecessor = election.predecessor();
                let own = match candidate.session() {
                    Some(session) => election.candidate_of(session).cloned(),
                    None => Some(candidate.clone()),
                };
                let Some(told) =
                    own.and_then(|own| election.candidate_mut(own.created, &own.key)).map(|own| {
                        own.told = true;
                        own.clone()
                    })
                else {
                    continue;
                };
                let mut candidate = Arc::new(told);
                if Canary::TokenReused.sings()
                    && let Some(before) =
                        election.tenures().filter(|tenure| tenure.end.is_some()).last()
                {
                    Arc::make_mut(&mut candidate).created = before.token;
                }
                events.push(ElectionEvent::Granted { name: name.clone(), candidate, predecessor });
            }
        }
    }

    /// Whether a candidate's session holds in this election, and need not wait for a former holder's stop.
    fn is_ready(&self, name: &Bytes, candidate: &Candidate) -> bool {
        let Some(election) = self.elections.get(name) else { return false };
        let Some(spec) = &candidate.spec else { return true };
        let holds = election.candidate_of(spec.session).is_some_and(|own| own.holds());
        holds && !(spec.no_overlap && election.is_delayed())
    }

    /// Keeps a bounded number of elections without candidates.
    fn note_idle(&mut self, name: &Bytes, revision: Revision) {
        let Some(election) = self.elections.get_mut(name) else { return };
        if !election.is_idle() || election.idle_since.is_some() {
            return;
        }
        Arc::make_mut(election).idle_since = Some(revision);
        self.idle.insert((revision, name.clone()));
        while self.idle.len() > IDLE_ELECTIONS_MAX {
            if let Some((_, oldest)) = self.idle.remove_min() {
                let election = self.elections.remove(&oldest);
                let ended =
                    election.and_then(|election| election.history.back()?.end).map(|end| end.at);
                self.forgotten = self.forgotten.max(ended.unwrap_or_default());
            }
        }
    }

    /// The value of a candidate changed, or the lease it hangs on.
    pub(crate) fn proclaimed(
        &mut self,
        name: &Bytes,
        kv: &Arc<KeyValue>,
        events: &mut Vec<ElectionEvent>,
    ) {
        let Some(election) = self.elections.get_mut(name) else { return };
        // The key of a stock client may have been put under another lease: it lives with that one now.
        let retied = election
            .candidate(kv.create_revision, &kv.key)
            .is_some_and(|candidate| candidate.spec.is_none() && candidate.lease != kv.lease);
        if let Some(candidate) = retied
            .then(|| Arc::make_mut(election).candidate_mut(kv.create_revision, &kv.key))
            .flatten()
        {
            candidate.lease = kv.lease;
        }
        let leads = election.leader().is_some_and(|leader| leader.key == kv.key);
        if !leads {
            return;
        }
        let election = Arc::make_mut(election);
        if let Some(tenure) = &mut election.tenure {
            tenure.value = shortened(&kv.value, TENURE_VALUE_BYTES_MAX);
            let (tenure, kv) = (tenure.clone(), kv.clone());
            events.push(ElectionEvent::Proclaimed { name: name.clone(), tenure, kv });
        }
    }

    /// Refuses a name above or below that of a live election: each would count the other's keys.
    pub(crate) fn check_nesting(&self, name: &Bytes) -> Result<(), Refusal> {
        let lives = |election: &Arc<Election>| !election.candidates.is_empty();
        let above =
            super::names_above(name).any(|above| self.elections.get(above).is_some_and(lives));
        let mut prefix = name.to_vec();
        prefix.push(b'/');
        let prefix = Bytes::from(prefix);
        let below = self
            .elections
            .range(prefix.clone()..)
            .take_while(|(below, _)| below.starts_with(&prefix))
            .any(|(_, election)| lives(election));
        if above || below { Err(Refusal::NestedName) } else { Ok(()) }
    }

    /// A candidate's identity, for people.
    pub fn identity_of(&self, candidate: &Candidate, kv: &KeyValue) -> String {
        identity_of(&self.sessions, candidate, kv)
    }
}

fn identity_of(
    sessions: &OrdMap<LeaseId, Arc<Session>>,
    candidate: &Candidate,
    kv: &KeyValue,
) -> String {
    match candidate.session().and_then(|session| sessions.get(&session)) {
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
