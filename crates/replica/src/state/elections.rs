//! Elections follow the keys, and what an election decides is done to the keys.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{
    Event, EventKind, KeyValue, LeaseId, Op, Put, Revision, Span, Term, Txn, op::PutLease,
};

use super::{ApplyEffects, EntryContext, State};
use crate::{
    command::ELECTIONS_SINCE,
    election::{
        Candidate, Departure, EndReason, JoinSpec, PREEMPTION_DRAIN_MS, Step, Transfer, name_of,
        names_above,
    },
    mvcc::Change,
};

/// Why keys change, as far as it matters to elections.
#[derive(Clone, Debug)]
pub(super) struct Cause {
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
pub(super) struct Arriving {
    pub(super) spec: Arc<JoinSpec>,
    pub(super) since_ms: u64,
    pub(super) unhealthy: bool,
}

impl Cause {
    /// A client changed keys.
    pub(super) fn client(at: EntryContext) -> Cause {
        Cause { at, why: None, stopped: false, returns: false, arriving: None }
    }

    /// Candidates are taken away.
    pub(super) fn ends(at: EntryContext, why: EndReason, stopped: bool) -> Cause {
        Cause { why: Some(why), stopped, ..Cause::client(at) }
    }

    fn returns(at: EntryContext, why: EndReason, stopped: bool) -> Cause {
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
    pub(super) fn begin_elections(&mut self, at: EntryContext, effects: &mut ApplyEffects) {
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
    pub(super) fn follow_election(
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

    /// Several are held all or none.
    fn end_broken(&mut self, at: EntryContext, effects: &mut ApplyEffects) {
        while let Some(spec) = effects.broken.pop() {
            let keys = self.keys_together(&spec);
            if !keys.is_empty() {
                self.delete(&keys, &Cause::ends(at, EndReason::Deleted, false), effects);
            }
        }
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

    /// Decides which candidates hold in all elections that something happened to.
    pub(super) fn settle(&mut self, at: EntryContext, effects: &mut ApplyEffects) {
        self.end_broken(at, effects);
        while let Some(name) = effects.touched.pop_first() {
            if effects.loosened.remove(&name) {
                self.rank(&name, at, effects);
            }
            let mut succeeded = false;
            loop {
                match self.elections.next_step(&name, &mut effects.elections) {
                    Step::Done => break,
                    Step::PutBehind(keys) => {
                        self.put_behind(&name, &keys, (EndReason::Unhealthy, true), at, effects);
                    }
                    Step::Succeed(transfer) => {
                        self.succeed(&name, transfer, at, effects);
                        succeeded = true;
                    }
                }
            }
            if succeeded && let Some(election) = self.elections.election_mut(&name) {
                election.give_slots();
                self.rank(&name, at, effects);
            }
            let store = &self.store;
            let kv_of = |key: &Bytes| store.get(key).cloned();
            let now = (store.revision(), at.ms);
            self.elections.settle(&name, now, &kv_of, &mut effects.elections);
            self.let_preempt(&name, effects);
            // Moving keys has touched this election again, and nothing is left to do in it; others may
            // lie above.
            effects.touched.remove(&name);
        }
    }

    /// Puts the candidates that wait in order of priority.
    pub(super) fn rank(&mut self, name: &Bytes, at: EntryContext, effects: &mut ApplyEffects) {
        let misplaced =
            self.elections.election(name).map(|election| election.misplaced()).unwrap_or_default();
        if !misplaced.is_empty() {
            self.put_behind(name, &misplaced, (EndReason::Preempted, true), at, effects);
        }
    }

    /// Asks the leader to make room while a candidate pre-empts it: for whichever is next then. An operator's choice
    /// counts more.
    fn let_preempt(&mut self, name: &Bytes, effects: &mut ApplyEffects) {
        let Some(election) = self.elections.election(name) else { return };
        let under_way = election.transfer().copied();
        if election.leads_by_choice() || under_way.is_some_and(|transfer| transfer.why.is_choice())
        {
            return;
        }
        let next = election.preemptor().and_then(|candidate| candidate.session());
        if next == under_way.map(|transfer| transfer.to) {
            return;
        }
        match (next, election.leader().cloned()) {
            (Some(to), Some(leader)) => {
                let (from, within_ms) = (leader.created, PREEMPTION_DRAIN_MS);
                let transfer = Transfer { to, from, within_ms, why: EndReason::Preempted };
                self.announce(name, &leader, transfer, effects);
            }
            _ => self.elections.call_off(name, &mut effects.elections),
        }
    }

    /// Those between the front and a successor let it pass.
    fn succeed(
        &mut self,
        name: &Bytes,
        transfer: Transfer,
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) {
        let Some(election) = self.elections.election(name) else { return };
        let before = election.between(None, transfer.to);
        let movable = before.iter().filter(|candidate| !candidate.is_fixed());
        let keys: Vec<_> = movable.map(|candidate| candidate.key.clone()).collect();
        self.put_behind(name, &keys, (transfer.why, true), at, effects);
    }

    /// Takes candidates out of an election and puts them in again at its end, in order, each with a revision
    /// of its own.
    pub(super) fn put_behind(
        &mut self,
        name: &Bytes,
        keys: &[Bytes],
        (why, stopped): (EndReason, bool),
        at: EntryContext,
        effects: &mut ApplyEffects,
    ) {
        let Some(election) = self.elections.election(name) else { return };
        let candidates: Vec<Arc<Candidate>> = keys
            .iter()
            .filter_map(|key| {
                election.candidates().iter().find(|candidate| candidate.key == *key).cloned()
            })
            .collect();
        let values: Vec<Option<Bytes>> =
            candidates.iter().map(|p| self.store.get(&p.key).map(|kv| kv.value.clone())).collect();
        let keys: Vec<Bytes> = candidates.iter().map(|candidate| candidate.key.clone()).collect();
        self.delete(&keys, &Cause::returns(at, why, stopped), effects);
        for (old, value) in candidates.into_iter().zip(values) {
            let (Some(spec), Some(value)) = (&old.spec, value) else { continue };
            let arriving =
                Arriving { spec: spec.clone(), since_ms: old.since_ms, unhealthy: old.unhealthy };
            self.take_candidates(vec![(old.key.clone(), value)], arriving, at, effects);
            let election = self.elections.election(name);
            if let Some(candidate) =
                election.and_then(|election| election.candidate_of(spec.session)).cloned()
            {
                let name = name.clone();
                effects.elections.push(crate::election::ElectionEvent::Moved {
                    name,
                    candidate,
                    old,
                    why,
                });
            }
        }
    }

    /// Creates keys for a session, all at one revision.
    pub(super) fn take_candidates(
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

    /// Deletes keys, all at one revision.
    pub(super) fn delete(&mut self, keys: &[Bytes], cause: &Cause, effects: &mut ApplyEffects) {
        let change: Option<Change> = self.store.delete_keys(keys);
        self.record(change, cause, effects);
    }

    /// The keys of a session's candidates, and of all that were joined together with one of them.
    pub(super) fn keys_together(&self, spec: &JoinSpec) -> Vec<Bytes> {
        spec.together.iter().filter_map(|name| self.key_in(name, spec.session)).collect()
    }

    pub(super) fn key_in(&self, name: &Bytes, session: LeaseId) -> Option<Bytes> {
        self.elections.election(name)?.candidate_of(session).map(|candidate| candidate.key.clone())
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
