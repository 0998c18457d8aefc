//! Lines follow the keys, and what a line decides is done to the keys.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{
    Event, EventKind, KeyValue, LeaseId, Op, Put, Revision, Span, Term, Txn, op::PutLease,
};

use super::{At, State, Traces};
use crate::{
    command::LINES_SINCE,
    mvcc::Change,
    queue::{
        Candidate, Ending, PREEMPTION_DRAIN_MS, Place, Step, TenureEnd, Transfer, name_of,
        names_above,
    },
};

/// Why keys change, as far as it matters to lines.
#[derive(Clone, Debug)]
pub(super) struct Cause {
    at: At,
    /// Why places go; if nothing is said, it depends on whose they are.
    why: Option<TenureEnd>,
    /// Whoever had them is known to have stopped.
    stopped: bool,
    /// They come back at once.
    returns: bool,
    /// What the session says that these keys belong to.
    arriving: Option<Arriving>,
}

/// A place to be taken for a session.
#[derive(Clone, Debug)]
pub(super) struct Arriving {
    pub(super) candidate: Arc<Candidate>,
    pub(super) since_ms: u64,
    pub(super) unhealthy: bool,
}

impl Cause {
    /// A client changed keys.
    pub(super) fn client(at: At) -> Cause {
        Cause { at, why: None, stopped: false, returns: false, arriving: None }
    }

    /// Places are taken away.
    pub(super) fn ends(at: At, why: TenureEnd, stopped: bool) -> Cause {
        Cause { why: Some(why), stopped, ..Cause::client(at) }
    }

    fn returns(at: At, why: TenureEnd, stopped: bool) -> Cause {
        Cause { returns: true, ..Cause::ends(at, why, stopped) }
    }

    fn arrives(at: At, arriving: Arriving) -> Cause {
        Cause { arriving: Some(arriving), ..Cause::client(at) }
    }
}

impl State {
    fn has_lines(&self) -> bool {
        self.cluster_version >= LINES_SINCE
    }

    /// Lines as they follow from the keys alone, for a state that was put together by other means
    /// than commands.
    pub fn lines_from_keys(&mut self) {
        if self.has_lines() {
            // Who led before is not among the keys.
            self.queues.forget_until(self.store.revision());
            let at = At { index: 0, term: Term(0), ms: 0 };
            self.begin_lines(at, &mut Traces::default());
        }
    }

    /// From now on lines are kept. They begin with the keys that are there.
    pub(super) fn begin_lines(&mut self, at: At, traces: &mut Traces) {
        let keys: Vec<_> = self.store.live_in(&Span::From(Bytes::new())).cloned().collect();
        for kv in keys {
            self.line_for(&kv, None, at, traces);
        }
        self.settle(at, traces);
    }

    /// Makes sure that there is a line for a key that is a place. It begins with all keys that are
    /// there, except for a newcomer.
    fn line_for(&mut self, kv: &KeyValue, newcomer: Option<&Bytes>, at: At, traces: &mut Traces) {
        let Some(name) = name_of(&kv.key, kv.lease) else { return };
        if self.queues.line(&name).is_some() {
            return;
        }
        let mut prefix = name.to_vec();
        prefix.push(b'/');
        let places: Vec<_> = self
            .store
            .live_in(&Span::prefix(prefix.into()))
            .filter(|kv| Some(&kv.key) != newcomer)
            .map(|kv| stock_place(kv, at.ms))
            .collect();
        self.queues.begin_line(name.clone(), places);
        traces.touched.insert(name);
    }

    /// Lets the lines above a key know what happened to it.
    pub(super) fn follow_line(&mut self, event: &Event, cause: &Cause, traces: &mut Traces) {
        if !self.has_lines() {
            return;
        }
        if event.kind == EventKind::Put {
            let newcomer = event.prev.is_none().then_some(&event.kv.key);
            self.line_for(&event.kv, newcomer, cause.at, traces);
        }
        if !self.queues.has_lines() {
            return;
        }
        let key = &event.kv.key;
        for above in names_above(key) {
            if self.queues.line(above).is_none() {
                continue;
            }
            let name = key.slice_ref(above);
            match (event.kind, &event.prev) {
                (EventKind::Put, None) => {
                    let place = self.arriving_place(&name, &event.kv, cause);
                    self.queues.insert(&name, place);
                }
                (EventKind::Put, Some(_)) => {
                    self.queues.proclaimed(&name, &event.kv, &mut traces.lines);
                }
                (EventKind::Delete, Some(prev)) => {
                    let at = (prev.create_revision, &key[..]);
                    if self.is_fixed(&name, at) {
                        traces.loosened.insert(name.clone());
                        self.note_broken(&name, at, cause, traces);
                    }
                    let ending = self.ending(&name, at, cause, event.kv.mod_revision);
                    self.queues.remove(&name, at, ending, &mut traces.lines);
                }
                (EventKind::Delete, None) => {}
            }
            traces.touched.insert(name);
        }
    }

    fn is_fixed(&self, name: &Bytes, (created, key): (Revision, &[u8])) -> bool {
        let place = self.queues.line(name).and_then(|line| line.place(created, key));
        place.is_some_and(|place| place.is_fixed())
    }

    /// Of several that were taken together one goes alone: somebody deleted its key by hand.
    fn note_broken(
        &self,
        name: &Bytes,
        (created, key): (Revision, &[u8]),
        cause: &Cause,
        traces: &mut Traces,
    ) {
        let place = self.queues.line(name).and_then(|line| line.place(created, key));
        let candidate = place.and_then(|place| place.candidate.clone());
        traces.broken.extend(candidate.filter(|_| !cause.returns));
    }

    /// Several are held all or none.
    fn end_broken(&mut self, at: At, traces: &mut Traces) {
        while let Some(candidate) = traces.broken.pop() {
            let keys = self.keys_together(&candidate);
            if !keys.is_empty() {
                self.delete(&keys, &Cause::ends(at, TenureEnd::Deleted, false), traces);
            }
        }
    }

    fn arriving_place(&self, name: &Bytes, kv: &KeyValue, cause: &Cause) -> Place {
        let place = stock_place(kv, cause.at.ms);
        match &cause.arriving {
            // Only in its own line; should another lie above, it is a key like any other there.
            Some(arriving) if arriving.candidate.together.contains(name) => Place {
                candidate: Some(arriving.candidate.clone()),
                since_ms: arriving.since_ms,
                unhealthy: arriving.unhealthy,
                ..place
            },
            _ => place,
        }
    }

    /// A key that a client deleted was given up by its owner if that is a client of etcd's; a
    /// session gives up its places by other means.
    fn ending(
        &self,
        name: &Bytes,
        (created, key): (Revision, &[u8]),
        cause: &Cause,
        at: Revision,
    ) -> Ending {
        let place = self.queues.line(name).and_then(|line| line.place(created, key));
        let session = place.and_then(|place| place.session());
        let by_hand = match session {
            Some(_) => TenureEnd::Deleted,
            None => TenureEnd::Resigned,
        };
        // Somebody may have put the key of a session under another lease. When that one ends, the
        // session lives, and so does its belief.
        let lives = session.is_some_and(|session| self.leases.contains(session));
        let of_lease = matches!(cause.why, Some(TenureEnd::Expired | TenureEnd::Revoked));
        let (why, stopped) = match cause.why {
            Some(_) if lives && of_lease => (by_hand, false),
            why => (why.unwrap_or(by_hand), cause.stopped),
        };
        Ending { why, stopped, returns: cause.returns, at, at_ms: cause.at.ms }
    }

    /// Decides who holds in all lines that something happened to.
    pub(super) fn settle(&mut self, at: At, traces: &mut Traces) {
        self.end_broken(at, traces);
        while let Some(name) = traces.touched.pop_first() {
            if traces.loosened.remove(&name) {
                self.rank(&name, at, traces);
            }
            let mut succeeded = false;
            loop {
                match self.queues.next_step(&name, &mut traces.lines) {
                    Step::Done => break,
                    Step::PutBehind(keys) => {
                        self.put_behind(&name, &keys, (TenureEnd::Unhealthy, true), at, traces);
                    }
                    Step::Succeed(transfer) => {
                        self.succeed(&name, transfer, at, traces);
                        succeeded = true;
                    }
                }
            }
            if succeeded && let Some(line) = self.queues.line_mut(&name) {
                line.give_slots();
                self.rank(&name, at, traces);
            }
            let store = &self.store;
            let kv_of = |key: &Bytes| store.get(key).cloned();
            let now = (store.revision(), at.ms);
            self.queues.settle(&name, now, &kv_of, &mut traces.lines);
            self.let_preempt(&name, traces);
            // Moving keys has touched this line again, and nothing is left to do in it; others may
            // lie above.
            traces.touched.remove(&name);
        }
    }

    /// Those who wait stand by priority.
    pub(super) fn rank(&mut self, name: &Bytes, at: At, traces: &mut Traces) {
        let misplaced = self.queues.line(name).map(|line| line.misplaced()).unwrap_or_default();
        if !misplaced.is_empty() {
            self.put_behind(name, &misplaced, (TenureEnd::Preempted, true), at, traces);
        }
    }

    /// Whoever leads makes room while somebody pre-empts it: for whoever is next then. What an operator wants
    /// counts more.
    fn let_preempt(&mut self, name: &Bytes, traces: &mut Traces) {
        let Some(line) = self.queues.line(name) else { return };
        let under_way = line.transfer().copied();
        if line.leads_by_choice() || under_way.is_some_and(|transfer| transfer.why.is_choice()) {
            return;
        }
        let next = line.preemptor().and_then(|place| place.session());
        if next == under_way.map(|transfer| transfer.to) {
            return;
        }
        match (next, line.leader().cloned()) {
            (Some(to), Some(leader)) => {
                let (from, within_ms) = (leader.created, PREEMPTION_DRAIN_MS);
                let transfer = Transfer { to, from, within_ms, why: TenureEnd::Preempted };
                self.announce(name, &leader, transfer, traces);
            }
            _ => self.queues.call_off(name, &mut traces.lines),
        }
    }

    /// Those between the front and a successor let it pass.
    fn succeed(&mut self, name: &Bytes, transfer: Transfer, at: At, traces: &mut Traces) {
        let Some(line) = self.queues.line(name) else { return };
        let before = line.between(None, transfer.to);
        let movable = before.iter().filter(|place| !place.is_fixed());
        let keys: Vec<_> = movable.map(|place| place.key.clone()).collect();
        self.put_behind(name, &keys, (transfer.why, true), at, traces);
    }

    /// Takes places out of a line and puts them in again at its end, in order, each with a revision
    /// of its own.
    pub(super) fn put_behind(
        &mut self,
        name: &Bytes,
        keys: &[Bytes],
        (why, stopped): (TenureEnd, bool),
        at: At,
        traces: &mut Traces,
    ) {
        let Some(line) = self.queues.line(name) else { return };
        let places: Vec<Arc<Place>> = keys
            .iter()
            .filter_map(|key| line.places().iter().find(|place| place.key == *key).cloned())
            .collect();
        let values: Vec<Option<Bytes>> =
            places.iter().map(|p| self.store.get(&p.key).map(|kv| kv.value.clone())).collect();
        let keys: Vec<Bytes> = places.iter().map(|place| place.key.clone()).collect();
        self.delete(&keys, &Cause::returns(at, why, stopped), traces);
        for (old, value) in places.into_iter().zip(values) {
            let (Some(candidate), Some(value)) = (&old.candidate, value) else { continue };
            let arriving = Arriving {
                candidate: candidate.clone(),
                since_ms: old.since_ms,
                unhealthy: old.unhealthy,
            };
            self.take_places(vec![(old.key.clone(), value)], arriving, at, traces);
            let line = self.queues.line(name);
            if let Some(place) = line.and_then(|line| line.place_of(candidate.session)).cloned() {
                let name = name.clone();
                traces.lines.push(crate::queue::Event::Moved { name, place, old, why });
            }
        }
    }

    /// Creates keys for a session, all at one revision.
    pub(super) fn take_places(
        &mut self,
        keys: Vec<(Bytes, Bytes)>,
        arriving: Arriving,
        at: At,
        traces: &mut Traces,
    ) {
        let lease = PutLease::Set(Some(arriving.candidate.session));
        let put = |(key, value)| Op::Put(Put { key, value: Some(value), lease, prev_kv: false });
        let success = keys.into_iter().map(put).collect();
        let txn = Txn { compare: vec![], success, failure: vec![] };
        let done = self.store.txn(&txn, &|_| true).expect("a put with a live lease cannot fail");
        self.record(done.1, &Cause::arrives(at, arriving), traces);
    }

    /// Deletes keys, all at one revision.
    pub(super) fn delete(&mut self, keys: &[Bytes], cause: &Cause, traces: &mut Traces) {
        let change: Option<Change> = self.store.delete_keys(keys);
        self.record(change, cause, traces);
    }

    /// The keys of a session's places, and of all that were joined together with one of them.
    pub(super) fn keys_together(&self, candidate: &Candidate) -> Vec<Bytes> {
        candidate.together.iter().filter_map(|name| self.key_in(name, candidate.session)).collect()
    }

    pub(super) fn key_in(&self, name: &Bytes, session: LeaseId) -> Option<Bytes> {
        self.queues.line(name)?.place_of(session).map(|place| place.key.clone())
    }
}

fn stock_place(kv: &KeyValue, ms: u64) -> Place {
    Place {
        key: kv.key.clone(),
        created: kv.create_revision,
        lease: kv.lease,
        since_ms: ms,
        candidate: None,
        slot: None,
        told: false,
        unhealthy: false,
    }
}
