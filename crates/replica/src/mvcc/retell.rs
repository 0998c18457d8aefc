//! A store from the events of another, told one after the other: how a foreign store is taken over.

use std::sync::Arc;

use tenure_api::{Event, EventKind, KeyValue, Revision};

use super::{Change, Store, history::History, key::Key, store::cost};

/// Events swept at a time; the caller waits for the whole anyway.
const SWEEP_EVENTS: usize = 1 << 20;

/// Takes events in the order in which they happened and makes the store they left behind. Unlike
/// a write, an event keeps its numbers: revisions may have gaps, and a key may enter in the
/// middle of its life, because what was before is compacted.
#[derive(Debug, Default)]
pub struct Retelling {
    store: Store,
    /// The revision being told.
    open: Option<(Revision, Vec<Event>)>,
}

/// An event that cannot have happened then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("revision {told} cannot follow revision {before}")]
pub struct OutOfOrder {
    /// The revision of the event.
    pub told: Revision,
    /// The revision that was told before.
    pub before: Revision,
}

impl Retelling {
    /// Before the first event.
    pub fn new() -> Retelling {
        Retelling::default()
    }

    /// Takes the next event as the version it made.
    ///
    /// # Errors
    /// If it happened before the last one, or before revision 2, which is the first that changed
    /// anything.
    pub fn tell(&mut self, version: KeyValue) -> Result<(), OutOfOrder> {
        let told = version.mod_revision;
        let before = self.open.as_ref().map_or(self.store.revision, |(open, _)| *open);
        let follows = if self.open.is_some() { told >= before } else { told > before };
        if !follows {
            return Err(OutOfOrder { told, before });
        }
        if told > before {
            self.close();
        }
        let event = self.add(Arc::new(version));
        self.open.get_or_insert_with(|| (told, Vec::new())).1.push(event);
        Ok(())
    }

    /// The store, which has come to `revision` and is compacted at `compacted`.
    ///
    /// # Errors
    /// If events were told after that revision, or it lies before the compacted one.
    pub fn finish(mut self, revision: Revision, compacted: Revision) -> Result<Store, OutOfOrder> {
        self.close();
        let last = self.store.revision.max(compacted);
        if revision < last {
            return Err(OutOfOrder { told: revision, before: last });
        }
        self.store.revision = revision;
        if compacted > Revision(0) {
            self.store.compact(compacted).expect("it is not later than the revision");
            while self.store.sweep(SWEEP_EVENTS) {}
        }
        Ok(self.store)
    }

    fn add(&mut self, version: Arc<KeyValue>) -> Event {
        let store = &mut self.store;
        store.bytes += cost(&version);
        let prev = match store.keys.get_mut(&version.key[..]) {
            Some(history) => {
                let prev = history.live().cloned();
                history.push(version.clone());
                prev
            }
            None => {
                store.keys.insert(Key::new(&version.key), History::new(version.clone()));
                None
            }
        };
        let kind = if version.is_tombstone() { EventKind::Delete } else { EventKind::Put };
        match (kind, &prev) {
            (EventKind::Put, None) => store.live += 1,
            (EventKind::Delete, Some(_)) => store.live -= 1,
            (EventKind::Put, Some(_)) | (EventKind::Delete, None) => {}
        }
        Event { kind, kv: version, prev }
    }

    fn close(&mut self) {
        let Some((revision, events)) = self.open.take() else { return };
        self.store.revision = revision;
        self.store.changes.push_back(Change { revision, events: events.into() });
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tenure_api::{DeleteRange, Put, Span, op::PutLease};

    use super::*;

    fn put(key: &'static str) -> Put {
        let (key, value) = (Bytes::from(key), Some(Bytes::from("v")));
        Put { key, value, lease: PutLease::Set(None), prev_kv: false }
    }

    fn retold(store: &Store, compacted: Revision) -> Store {
        let mut retelling = Retelling::new();
        for (_, version) in store.ordered_versions().iter() {
            retelling.tell(version.clone()).unwrap();
        }
        retelling.finish(store.revision(), compacted).unwrap()
    }

    #[test]
    fn retelling_makes_the_same_store() {
        let mut store = Store::new();
        for key in ["b", "a", "b", "c"] {
            store.put(&put(key), &|_| true).unwrap();
        }
        let delete = DeleteRange { span: Span::from_wire("a".into(), "c".into()), prev_kv: false };
        store.delete_range(&delete);
        store.put(&put("a"), &|_| true).unwrap();
        let chunks = |store: &Store| store.chunks().collect::<Vec<_>>();
        for compacted in 0..=store.revision().0 {
            let compacted = Revision(compacted);
            let mut unswept = store.clone();
            if compacted > Revision(0) {
                unswept.compact(compacted).unwrap();
            }
            let mut swept = unswept.clone();
            while swept.sweep(1) {}
            for from in [&store, &unswept, &swept] {
                let again = retold(from, compacted);
                assert_eq!(chunks(&again), chunks(&swept), "compacted at {compacted}");
                assert_eq!(again.len(), swept.len());
                assert_eq!(again.size_bytes(), swept.size_bytes());
            }
        }
    }

    #[test]
    fn retelling_refuses_revisions_out_of_order() {
        let version = |revision| KeyValue {
            version: 1,
            create_revision: Revision(revision),
            ..KeyValue::tombstone("k".into(), Revision(revision))
        };
        let mut retelling = Retelling::new();
        assert!(retelling.tell(version(1)).is_err());
        retelling.tell(version(7)).unwrap();
        retelling.tell(version(7)).unwrap();
        let refused = OutOfOrder { told: Revision(6), before: Revision(7) };
        assert_eq!(retelling.tell(version(6)), Err(refused));
        assert!(retelling.finish(Revision(6), Revision(0)).is_err());
    }
}
