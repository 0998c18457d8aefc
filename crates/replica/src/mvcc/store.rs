//! The store itself and its plain writes.

use std::sync::Arc;

use bytes::Bytes;
use imbl::{OrdMap, Vector};
use tenure_api::{
    DeleteRange, DeleteRangeResult, Event, EventKind, Failure, KeyValue, LeaseId, Put, PutResult,
    Revision, op::PutLease,
};

use super::{history::History, key::Key};

/// What a kept version costs beside its key and value: its numbers, its place in the map, in its
/// history and in the list of changes. Measured by `examples/mvcc_cost.rs`, rounded up.
pub(crate) const VERSION_OVERHEAD: usize = 320;

/// Everything that happened at one revision, in the order in which it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub revision: Revision,
    /// What.
    pub events: Arc<[Event]>,
}

/// All keys and their versions. Cloning freezes it: constant time, and the clone never changes.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) revision: Revision,
    pub(super) compacted: Revision,
    pub(super) keys: OrdMap<Key, History>,
    /// In order of revision. The compacted revision itself stays, because a watcher may start there;
    /// earlier ones are what is left to sweep.
    pub(super) changes: Vector<Change>,
    /// How many events of the first change have been swept.
    pub(super) swept_events: usize,
    pub(super) live: usize,
    pub(super) bytes: u64,
}

/// A write under way: its revision, and the events so far. It becomes part of the list of changes
/// when it is committed; one without events leaves no trace.
pub(super) struct Write {
    revision: Revision,
    events: Vec<Event>,
}

impl Default for Store {
    fn default() -> Store {
        Store::new()
    }
}

impl Store {
    /// An empty store, at revision 1 as etcd's.
    pub fn new() -> Store {
        Store {
            revision: Revision::FIRST,
            compacted: Revision(0),
            keys: OrdMap::new(),
            changes: Vector::new(),
            swept_events: 0,
            live: 0,
            bytes: 0,
        }
    }

    /// The revision of the last change.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The earliest revision that can be read; 0 if nothing was ever compacted.
    pub fn compacted(&self) -> Revision {
        self.compacted
    }

    /// How many keys there are now.
    pub fn len(&self) -> usize {
        self.live
    }

    /// How many keys have a history: those that there are, and those that were deleted and not compacted away. To range over
    /// all is to look at so many.
    pub fn history_len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no keys now.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// About how much memory the kept versions take. Versions that compaction made unreachable count
    /// until they are swept, so only members that have swept equally far give the same number.
    pub fn size_bytes(&self) -> u64 {
        self.bytes
    }

    /// A key as it is now.
    pub fn get(&self, key: &[u8]) -> Option<&Arc<KeyValue>> {
        self.keys.get(key)?.live()
    }

    /// The changes at `from` and later, in order. Nothing before the compacted revision is given.
    pub fn changes_since(&self, from: Revision) -> impl Iterator<Item = &Change> {
        let first = self.change_at_or_after(from.max(self.compacted));
        (first..self.changes.len()).filter_map(|at| self.changes.get(at))
    }

    /// Writes one key.
    pub fn put(
        &mut self,
        put: &Put,
        lease_lives: &dyn Fn(LeaseId) -> bool,
    ) -> Result<(PutResult, Change), Failure> {
        // Inside a transaction etcd asks these two in the other order; clients see the difference.
        self.check_lease(put, lease_lives)?;
        self.check_kept(put)?;
        let (result, event) = self.put_version(put, self.revision.next());
        // Not through `Write`: a plain put is the common case and needs no list.
        let change = Change { revision: self.revision.next(), events: Arc::new([event]) };
        self.record(change.clone());
        Ok((result, change))
    }

    /// Deletes the keys of a span. If there was none, nothing changes, not even the revision.
    pub fn delete_range(&mut self, delete: &DeleteRange) -> (DeleteRangeResult, Option<Change>) {
        let mut write = self.begin();
        let result = self.delete_span(delete, &mut write);
        (result, self.commit(write))
    }

    /// Deletes these keys at one revision, in this order, as far as they exist: the end of a lease.
    pub fn delete_keys(&mut self, keys: &[Bytes]) -> Option<Change> {
        let mut write = self.begin();
        for key in keys {
            self.delete_key(key, &mut write);
        }
        self.commit(write)
    }

    pub(super) fn begin(&self) -> Write {
        Write { revision: self.revision.next(), events: Vec::new() }
    }

    pub(super) fn commit(&mut self, write: Write) -> Option<Change> {
        if write.events.is_empty() {
            if canary!(RevisionGivenBack) {
                self.revision.0 -= 1;
            }
            return None;
        }
        let change = Change { revision: write.revision, events: write.events.into() };
        self.record(change.clone());
        Some(change)
    }

    fn record(&mut self, change: Change) {
        self.revision = change.revision;
        self.changes.push_back(change);
    }

    /// A put that keeps the value or the lease needs a key to keep it from.
    pub(super) fn check_kept(&self, put: &Put) -> Result<(), Failure> {
        let keeps = put.value.is_none() || put.lease == PutLease::Keep;
        if keeps && self.get(&put.key).is_none() {
            return Err(Failure::KeyNotFound);
        }
        Ok(())
    }

    pub(super) fn check_lease(
        &self,
        put: &Put,
        lease_lives: &dyn Fn(LeaseId) -> bool,
    ) -> Result<(), Failure> {
        match put.lease {
            PutLease::Set(Some(lease)) if !lease_lives(lease) => Err(Failure::LeaseNotFound),
            PutLease::Set(_) | PutLease::Keep => Ok(()),
        }
    }

    /// One put of a transaction; it was checked before.
    pub(super) fn put_key(&mut self, put: &Put, write: &mut Write) -> PutResult {
        let (result, event) = self.put_version(put, write.revision);
        write.events.push(event);
        result
    }

    fn put_version(&mut self, put: &Put, at: Revision) -> (PutResult, Event) {
        let (kv, prev) = match self.keys.get_mut(&put.key[..]) {
            Some(history) => {
                let prev = history.live().cloned();
                // All versions of a key share the memory of its name.
                let key = history.newest().key.clone();
                let kv = Arc::new(next_version(key, put, prev.as_deref(), at));
                history.push(kv.clone());
                (kv, prev)
            }
            None => {
                let kv = Arc::new(next_version(put.key.clone(), put, None, at));
                self.keys.insert(Key::new(&kv.key), History::new(kv.clone()));
                (kv, None)
            }
        };
        self.live += usize::from(prev.is_none());
        self.bytes += cost(&kv);
        let result = PutResult { prev: prev.clone().filter(|_| put.prev_kv) };
        (result, Event { kind: EventKind::Put, kv, prev })
    }

    pub(super) fn delete_span(
        &mut self,
        delete: &DeleteRange,
        write: &mut Write,
    ) -> DeleteRangeResult {
        let doomed: Vec<_> = self.live_in(&delete.span).cloned().collect();
        for version in &doomed {
            self.delete_key(&version.key, write);
        }
        let deleted = doomed.len() as i64;
        DeleteRangeResult { deleted, prev: if delete.prev_kv { doomed } else { Vec::new() } }
    }

    fn delete_key(&mut self, key: &[u8], write: &mut Write) {
        // Look before touching: `get_mut` would copy the path of a key that is not there.
        if self.get(key).is_none() {
            return;
        }
        let Some(history) = self.keys.get_mut(key) else { return };
        let prev = history.newest().clone();
        let kv = Arc::new(KeyValue::tombstone(prev.key.clone(), write.revision));
        history.push(kv.clone());
        self.live -= 1;
        self.bytes += cost(&kv);
        write.events.push(Event { kind: EventKind::Delete, kv, prev: Some(prev) });
    }

    /// The index in the list of the first change at or after a revision. Revisions may have gaps
    /// (a restore jumps), so it is searched and not computed.
    pub(super) fn change_at_or_after(&self, revision: Revision) -> usize {
        match self.changes.binary_search_by(|change| change.revision.cmp(&revision)) {
            Ok(at) | Err(at) => at,
        }
    }
}

/// What a version counts for in [`Store::size_bytes`].
pub(super) fn cost(version: &KeyValue) -> u64 {
    (version.key.len() + version.value.len() + VERSION_OVERHEAD) as u64
}

/// A put that keeps something was checked at the start of its transaction. Should an earlier step of
/// the same transaction have deleted the key, it keeps nothing (etcd stops the server there).
fn next_version(key: Bytes, put: &Put, prev: Option<&KeyValue>, at: Revision) -> KeyValue {
    KeyValue {
        key,
        value: put
            .value
            .clone()
            .or_else(|| prev.map(|prev| prev.value.clone()))
            .unwrap_or_default(),
        create_revision: prev.map_or(at, |prev| prev.create_revision),
        mod_revision: at,
        version: prev.map_or(0, |prev| prev.version) + 1,
        lease: match put.lease {
            PutLease::Set(lease) => lease,
            PutLease::Keep => prev.and_then(|prev| prev.lease),
        },
    }
}
