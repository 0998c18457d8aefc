//! Elections follow the keys, and what an election decides is done to the keys.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{Event, EventKind, KeyValue, LeaseId, Op, Put, Revision, Span, Txn, op::PutLease};

use super::{
    Candidate, CandidateSpec, Election, ElectionEvent, EndReason,
    apply::Transition,
    elections::{TENURE_VALUE_BYTES_MAX, shortened},
    name_of, names_above,
};
use crate::mvcc::Change;

/// Why keys change, as far as it matters to elections. Unless something is said, a client changed them.
#[derive(Clone, Debug, Default)]
pub(super) struct Cause {
    /// Why candidates go; if nothing is said, it depends on whose they are.
    why: Option<EndReason>,
    /// Their process is known to have stopped.
    stopped: bool,
    /// They come back at once, as the last candidates.
    returns: bool,
    /// What the session says that these keys belong to.
    arriving: Option<Arriving>,
}

/// A candidate to be taken for a session.
#[derive(Clone, Debug)]
pub(super) struct Arriving {
    pub(super) spec: Arc<CandidateSpec>,
    pub(super) since_ms: u64,
    pub(super) unhealthy: bool,
}

impl Cause {
    /// Candidates are taken away.
    pub(super) fn ends(why: EndReason, stopped: bool) -> Cause {
        Cause { why: Some(why), stopped, ..Cause::default() }
    }

    pub(super) fn returns(why: EndReason, stopped: bool) -> Cause {
        Cause { returns: true, ..Cause::ends(why, stopped) }
    }
}

impl Transition<'_> {
    /// Elections begin with the keys that are there.
    pub(super) fn begin_elections(&mut self) {
        let keys: Vec<_> = self.store.live_in(&Span::From(Bytes::new())).cloned().collect();
        for kv in keys {
            self.election_for(&kv, None);
        }
    }

    /// Keeps the leases' lists of keys and the elections in step with a change, and notes it for the
    /// watchers.
    pub(super) fn record(&mut self, change: Option<Change>, cause: &Cause) {
        let Some(change) = change else { return };
        for event in change.events.iter() {
            self.follow_lease(event);
            self.follow_election(event, cause);
        }
        self.effects.changes.push(change);
    }

    fn follow_lease(&mut self, event: &Event) {
        let before = event.prev.as_ref().and_then(|prev| prev.lease);
        let after = event.kv.lease;
        if before == after {
            return;
        }
        if let Some(lease) = before {
            self.leases.detach(lease, &event.kv.key);
        }
        if let Some(lease) = after {
            self.leases.attach(lease, event.kv.key.clone());
        }
    }

    /// Lets the elections above a key know what happened to it.
    fn follow_election(&mut self, event: &Event, cause: &Cause) {
        if !self.keeps_elections {
            return;
        }
        if event.kind == EventKind::Put {
            let newcomer = event.prev.is_none().then_some(&event.kv.key);
            self.election_for(&event.kv, newcomer);
        }
        if !self.elections.has_elections() {
            return;
        }
        let key = &event.kv.key;
        for above in names_above(&self.elections.elections, key) {
            let name = key.slice_ref(above);
            match (event.kind, &event.prev) {
                (EventKind::Put, None) => self.insert(&name, &event.kv, cause),
                (EventKind::Put, Some(_)) => self.proclaimed(&name, &event.kv),
                (EventKind::Delete, Some(prev)) => {
                    self.remove(&name, prev, event.kv.mod_revision, cause);
                }
                (EventKind::Delete, None) => {}
            }
            self.touched.insert(name);
        }
    }

    /// Makes sure that there is an election for a key that is a candidate. It begins with all keys that are
    /// there, except for a newcomer.
    fn election_for(&mut self, kv: &KeyValue, newcomer: Option<&Bytes>) {
        let Some(name) = name_of(&kv.key, kv.lease) else { return };
        if self.elections.election(&name).is_some() {
            return;
        }
        let under = Span::prefix([&name, &b"/"[..]].concat().into());
        // There may have been such an election before.
        let forgotten = self.elections.forgotten;
        let mut election = Election { forgotten, ..Election::default() };
        for kv in self.store.live_in(&under).filter(|kv| Some(&kv.key) != newcomer) {
            election.insert(stock_candidate(kv, self.at.ms));
        }
        self.elections.elections.insert(name.clone(), Arc::new(election));
        self.touched.insert(name);
    }

    /// Adds a candidate.
    fn insert(&mut self, name: &Bytes, kv: &KeyValue, cause: &Cause) {
        let mut candidate = stock_candidate(kv, self.at.ms);
        // Only in its own election; should another lie above, it is a key like any other there.
        let arriving = cause.arriving.as_ref();
        if let Some(arriving) = arriving.filter(|new| new.spec.together.contains(name)) {
            candidate.spec = Some(arriving.spec.clone());
            candidate.since_ms = arriving.since_ms;
            candidate.unhealthy = arriving.unhealthy;
        }
        let session = candidate.session();
        let Some(election) = self.elections.election_mut(name) else { return };
        let idle_since = election.idle_since.take();
        election.insert(candidate);
        if let Some(since) = idle_since {
            self.elections.idle.remove(&(since, name.clone()));
        }
        if let Some(session) = session.and_then(|id| self.elections.session_mut(id)) {
            session.candidates.insert(name.clone());
        }
    }

    /// A candidate goes: its key is deleted at a revision.
    fn remove(&mut self, name: &Bytes, kv: &KeyValue, at: Revision, cause: &Cause) {
        let Some(election) = self.elections.election_mut(name) else { return };
        let Some(candidate) = election.remove(kv.create_revision, &kv.key) else { return };
        let (why, stopped) = self.ending(&candidate, cause);
        if candidate.is_fixed() {
            self.loosened.insert(name.clone());
            // If others were taken together with it, and it goes alone, its key was deleted by hand.
            self.broken.extend(candidate.spec.clone().filter(|_| !cause.returns));
        }
        let Some(election) = self.elections.election_mut(name) else { return };
        if candidate.holds()
            && election.tenure.as_ref().is_some_and(|tenure| tenure.token == candidate.created)
            && let Some(tenure) = election.end_tenure(at, self.at.ms, (why, stopped))
        {
            self.tell(ElectionEvent::TenureEnded { name: name.clone(), tenure });
        }
        if let Some(id) = candidate.session() {
            let session = self.elections.session_mut(id);
            let ttl_ms = session.map_or(0, |session| {
                session.candidates.remove(name);
                session.ttl_ms
            });
            let unsure = candidate.told && !stopped && why != EndReason::Expired;
            if unsure && !canary!(DelayForgotten) {
                self.begin_delay(name, (id, candidate.created), ttl_ms, at);
            }
        }
        if !cause.returns {
            self.tell(ElectionEvent::Gone { name: name.clone(), candidate, why });
        }
    }

    /// Why a candidate goes, and whether its process has surely stopped. A key that a client deleted was given up by
    /// its owner if that is a stock client; a session gives up its candidacies by its own requests.
    fn ending(&self, candidate: &Candidate, cause: &Cause) -> (EndReason, bool) {
        let session = candidate.session();
        let by_hand = match session {
            Some(_) => EndReason::Deleted,
            None => EndReason::Resigned,
        };
        // The key of a session may have been put under another lease. When that one ends, the
        // session lives, and so does its belief.
        let lives = session.is_some_and(|session| self.leases.contains(session));
        let of_lease = matches!(cause.why, Some(EndReason::Expired | EndReason::Revoked));
        match cause.why {
            Some(_) if lives && of_lease => (by_hand, false),
            why => (why.unwrap_or(by_hand), cause.stopped),
        }
    }

    /// The value of a candidate changed, or the lease it hangs on.
    fn proclaimed(&mut self, name: &Bytes, kv: &Arc<KeyValue>) {
        let Some(election) = self.elections.elections.get_mut(name) else { return };
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
        if let Some(tenure) = &mut Arc::make_mut(election).tenure {
            tenure.value = shortened(&kv.value, TENURE_VALUE_BYTES_MAX);
            let (tenure, kv) = (tenure.clone(), kv.clone());
            self.tell(ElectionEvent::Proclaimed { name: name.clone(), tenure, kv });
        }
    }

    /// Creates keys for a session, all at one revision.
    pub(super) fn take_candidates(&mut self, keys: Vec<(Bytes, Bytes)>, arriving: Arriving) {
        let lease = PutLease::Set(Some(arriving.spec.session));
        let put = |(key, value)| Op::Put(Put { key, value: Some(value), lease, prev_kv: false });
        let success = keys.into_iter().map(put).collect();
        let txn = Txn { compare: vec![], success, failure: vec![] };
        let done = self
            .store
            .txn(&txn, &|_| true, usize::MAX)
            .expect("a put with a live lease cannot fail");
        self.record(done.1, &Cause { arriving: Some(arriving), ..Cause::default() });
    }

    /// Writes a holder's value.
    pub(super) fn show(&mut self, key: &Bytes, value: &Bytes) {
        let (key, value) = (key.clone(), Some(value.clone()));
        let put = Put { key, value, lease: PutLease::Keep, prev_kv: false };
        if let Ok((_, change)) = self.store.put(&put, &|_| true) {
            self.record(Some(change), &Cause::default());
        }
    }

    /// Deletes keys, all at one revision.
    pub(super) fn delete(&mut self, keys: &[Bytes], cause: &Cause) {
        let change = self.store.delete_keys(keys);
        self.record(change, cause);
    }

    /// The keys of a session's candidates, and of all that were joined together with one of them.
    pub(super) fn keys_together(&self, spec: &CandidateSpec) -> Vec<Bytes> {
        spec.together.iter().filter_map(|name| self.key_in(name, spec.session)).collect()
    }

    pub(super) fn key_in(&self, name: &Bytes, session: LeaseId) -> Option<Bytes> {
        self.elections.candidate_of(name, session).map(|candidate| candidate.key.clone())
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
