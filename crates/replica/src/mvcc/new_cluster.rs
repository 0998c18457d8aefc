//! The store of a cluster that begins with another one's data.

use imbl::OrdMap;
use tenure_api::Revision;

use super::{Store, history::History, key::Key, store::cost};

impl Store {
    /// Goes on from a later revision, before anything is written. What lies between counts as compacted.
    pub(crate) fn leap(&mut self, revision: Revision) {
        debug_assert!(self.changes.is_empty(), "nothing was written since it was founded");
        self.revision = self.revision.max(revision);
        self.compacted = self.revision;
    }

    /// What is left of this store for a cluster that begins at `revision`: each key that hangs on no
    /// lease, as it is now. Everything before `revision` counts as compacted.
    ///
    /// Keys keep their create and mod revisions, so that a client that compares them finds what was true
    /// when they were written. All of them lie before the compacted revision, which is nothing new:
    /// so does any key that is older than the last compaction.
    #[must_use]
    pub fn new_cluster(&self, revision: Revision) -> Store {
        let (mut bytes, mut live) = (0, 0);
        let kept = self.keys.iter().filter_map(|(_, history)| history.live());
        let keys: OrdMap<Key, History> = kept
            .filter(|kv| kv.lease.is_none())
            .map(|kv| {
                bytes += cost(kv);
                live += 1;
                (Key::new(&kv.key), History::new(kv.clone()))
            })
            .collect();
        Store {
            revision: revision.max(self.revision),
            compacted: revision.max(self.revision),
            keys,
            live,
            bytes,
            ..Store::new()
        }
    }
}
