//! Elections follow the keys, and what an election decides is done to the keys.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{
    Event, EventKind, KeyValue, LeaseId, Op, Put, Revision, Span, Term, Txn, op::PutLease,
};

use super::{
    Candidate, Election, ElectionEvent, Elections, EndReason, JoinSpec,
    elections::{TENURE_VALUE_BYTES_MAX, shortened},
    name_of, names_above,
};
use crate::{
    canary::Canary,
    command::ELECTIONS_SINCE,
    mvcc::Change,
    state::{ApplyEffects, EntryContext, State},
};

/// Why keys change, as far as it matters to elections.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    at: EntryContext,
    /// Why candidates go; if nothing is said, it depends on whose they are.
    why: Option<EndReason>,
    /// Their process is known to have stopped.
    stopped: bool,
    /// They come back at once.
    returns: bool,
    /// What the session says that these keys belong to.
    arriving: Option<Arriving>,
}

/// A candidate to be taken for a session.
#[derive(Clone, Debug)]
pub(crate) struct Arriving {
    pub(crate) spec: Arc<JoinSpec>,
    pub(crate) since_ms: u64,
    pub(crate) unhealthy: bool,
}

/// How a candidate goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
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

impl Cause {
    /// A client changed keys.
    pub(crate) fn client(at: EntryContext) -> Cause {
        Cause { at, why: None, stopped: false, returns: false, arriving: None }
    }

    /// Candidates are taken away.
    pub(crate) fn ends(at: EntryContext, why: EndReason, stopped: bool) -> Cause {
        Cause { why: Some(why), stopped, ..Cause::client(at) }
    }

    pub(super) fn returns(at: EntryContext, why: EndReason, stopped: bool) -> Cause {
        Cause { returns: true, ..Cause::ends(at, why, stopped) }
    }

    fn arrives(at: EntryContext, arriving: Arriving) -> Cause {
        Cause { arriving: Some(arriving), ..Cause::client(at) }
    }
}

impl State {
    fn has_elections(&self) -> bool {
        self.cluster_version >= ELECTIONS_SINCE
    }

    /// Elections as they follow from the keys alone, for a state that was put together by other means
    /// than commands.
    pub fn elections_from_keys(&mut self) {
        if self.has_elections() {
            // Past leaders are not among the keys.
            self.elections.forget_until(self.store.revision());
            let at = EntryContext { index: 0, term: Term(0), ms: 0 };
            self.begin_elections(at, &mut ApplyEffects::default());
        }
    }

    /// From now on elections are kept. They begin with the keys that are there.
    pub(crate) fn begin_elections(&mut self, at: EntryContext, effects: &mut ApplyEffects) {
        let keys: Vec<_> = self.store.live_in(&Span::From(Bytes::new())).cloned().collect();
        for kv in keys {
            self.election_for(&kv, None, at, effects);
        }
        self.settle(at, effects);
    }

    /// Makes sure that there is an election for a key that is a candidate. It begins with all keys that are
    /// there, except for a newcomer.
    fn election_for(
        &mut self,
        kv: &KeyValue,
        newcomer: Option<&Bytes>,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) {
        let Some(name) = name_of(&kv.key, kv.lease) else { return };
        if self.elections.election(&name).is_some() {
            return;
        }
        let mut prefix = name.to_vec();
        prefix.push(b'/');
        let candidates: Vec<_> = self
            .store
            .live_in(&Span::prefix(prefix.into()))
            .filter(|kv| Some(&kv.key) != newcomer)
            .map(|kv| stock_candidate(kv, at.ms))
            .collect();
        self.elections.begin_election(name.clone(), candidates);
        effects.touched.insert(name);
    }

    /// Lets the elections above a key know what happened to it.
    pub(crate) fn follow_election(
        &mut self,
        event: &Event,
        cause: &Cause,
        effects: &mut ApplyEffects,
    ) {
        if !self.has_elections() {
            return;
        }
        if event.kind == EventKind::Put {
            let newcomer = event.prev.is_none().then_some(&event.kv.key);
            self.election_for(&event.kv, newcomer, cause.at, effects);
        }
        if !self.elections.has_elections() {
            return;
        }
        let key = &event.kv.key;
        for above in names_above(key) {
            if self.elections.election(above).is_none() {
                continue;
            }
            let name = key.slice_ref(above);
            match (event.kind, &event.prev) {
                (EventKind::Put, None) => {
                    let candidate = self.arriving_candidate(&name, &event.kv, cause);
                    self.elections.insert(&name, candidate);
                }
                (EventKind::Put, Some(_)) => {
                    self.elections.proclaimed(&name, &event.kv, &mut effects.elections);
                }
                (EventKind::Delete, Some(prev)) => {
                    let at = (prev.create_revision, &key[..]);
                    if self.is_fixed(&name, at) {
                        effects.loosened.insert(name.clone());
                        self.note_broken(&name, at, cause, effects);
                    }
                    let ending = self.ending(&name, at, cause, event.kv.mod_revision);
                    self.elections.remove(&name, at, ending, &mut effects.elections);
                }
                (EventKind::Delete, None) => {}
            }
            effects.touched.insert(name);
        }
    }

    fn is_fixed(&self, name: &Bytes, (created, key): (Revision, &[u8])) -> bool {
        let candidate =
            self.elections.election(name).and_then(|election| election.candidate(created, key));
        candidate.is_some_and(|candidate| candidate.is_fixed())
    }

    /// Of several candidates that were taken together one goes alone: its key was deleted by hand.
    fn note_broken(
        &self,
        name: &Bytes,
        (created, key): (Revision, &[u8]),
        cause: &Cause,
        effects: &mut ApplyEffects,
    ) {
        let candidate =
            self.elections.election(name).and_then(|election| election.candidate(created, key));
        let spec = candidate.and_then(|candidate| candidate.spec.clone());
        effects.broken.extend(spec.filter(|_| !cause.returns));
    }

    fn arriving_candidate(&self, name: &Bytes, kv: &KeyValue, cause: &Cause) -> Candidate {
        let candidate = stock_candidate(kv, cause.at.ms);
        match &cause.arriving {
            // Only in its own election; should another lie above, it is a key like any other there.
            Some(arriving) if arriving.spec.together.contains(name) => Candidate {
                spec: Some(arriving.spec.clone()),
                since_ms: arriving.since_ms,
                unhealthy: arriving.unhealthy,
                ..candidate
            },
            _ => candidate,
        }
    }

    /// A key that a client deleted was given up by its owner if that is a stock client; a
    /// session gives up its candidacies by its own requests.
    fn ending(
        &self,
        name: &Bytes,
        (created, key): (Revision, &[u8]),
        cause: &Cause,
        at: Revision,
    ) -> Departure {
        let candidate =
            self.elections.election(name).and_then(|election| election.candidate(created, key));
        let session = candidate.and_then(|candidate| candidate.session());
        let by_hand = match session {
            Some(_) => EndReason::Deleted,
            None => EndReason::Resigned,
        };
        // The key of a session may have been put under another lease. When that one ends, the
        // session lives, and so does its belief.
        let lives = session.is_some_and(|session| self.leases.contains(session));
        let of_lease = matches!(cause.why, Some(EndReason::Expired | EndReason::Revoked));
        let (why, stopped) = match cause.why {
            Some(_) if lives && of_lease => (by_hand, false),
            why => (why.unwrap_or(by_hand), cause.stopped),
        };
        Departure { why, stopped, returns: cause.returns, at, at_ms: cause.at.ms }
    }

    /// Creates keys for a session, all at one revision.
    pub(crate) fn take_candidates(
        &mut self,
        keys: Vec<(Bytes, Bytes)>,
        arriving: Arriving,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) {
        let lease = PutLease::Set(Some(arriving.spec.session));
        let put = |(key, value)| Op::Put(Put { key, value: Some(value), lease, prev_kv: false });
        let success = keys.into_iter().map(put).collect();
        let txn = Txn { compare: vec![], success, failure: vec![] };
        let done = self.store.txn(&txn, &|_| true).expect("a put with a live lease cannot fail");
        self.record(done.1, &Cause::arrives(at, arriving), effects);
    }

    /// Writes a holder's value.
    pub(crate) fn show(
        &mut self,
        key: &Bytes,
        value: &Bytes,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) {
        let (key, value) = (key.clone(), Some(value.clone()));
        let put = Put { key, value, lease: PutLease::Keep, prev_kv: false };
        if let Ok((_, change)) = self.store.put(&put, &|_| true) {
            self.record(change, &Cause::client(at), effects);
        }
    }

    /// Deletes keys, all at one revision.
    pub(crate) fn delete(&mut self, keys: &[Bytes], cause: &Cause, effects: &mut ApplyEffects) {
        let change: Option<Change> = self.store.delete_keys(keys);
        self.record(change, cause, effects);
    }

    /// The keys of a session's candidates, and of all that were joined together with one of them.
    pub(crate) fn keys_together(&self, spec: &JoinSpec) -> Vec<Bytes> {
        spec.together.iter().filter_map(|name| self.key_in(name, spec.session)).collect()
    }

    pub(crate) fn key_in(&self, name: &Bytes, session: LeaseId) -> Option<Bytes> {
        self.elections.election(name)?.candidate_of(session).map(|candidate| candidate.key.clone())
    }
}

impl Elections {
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
}

fn stock_candidate(kv: &KeyValue, ms: u64) -> Candidate {
    Candidate {
        key: kv.key.clone(),
        created: kv.create_revision,
        lease: kv.lease,
        since_ms: ms,
        spec: None,
        slot: None,
        told: false,
        unhealthy: false,
    }
}
