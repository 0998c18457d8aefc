//! The versions of a store in the order in which they were made: what [`Retelling`](super::Retelling) takes.
//!
//! The list of changes begins at the compacted revision. What lived on from before is found by key only, and sorted here:
//! 16 bytes for each such key while it is held.

use tenure_api::{KeyValue, Revision};

use super::Store;

/// Every version that can be read since compaction. They may be gone through more than once.
#[derive(Debug)]
pub struct OrderedVersions<'a> {
    store: &'a Store,
    /// Made before the compacted revision, and live there.
    base: Vec<(Revision, &'a KeyValue)>,
}

impl Store {
    /// Takes time in proportion to the store: call it on a frozen clone.
    pub fn ordered_versions(&self) -> OrderedVersions<'_> {
        let compacted = self.compacted();
        let first = self.changes_since(compacted).next();
        let is_listed = first.is_some_and(|change| change.revision == compacted);
        let live = self.keys.iter().filter_map(|(_, history)| history.since(compacted).next());
        let mut base: Vec<_> = live
            .map(|version| (version.mod_revision, &**version))
            .filter(|(made, _)| *made < compacted || *made == compacted && !is_listed)
            .collect();
        // Stable: what was made in one transaction stays in the order of its keys. In which order it was made is forgotten.
        base.sort_by_key(|(made, _)| *made);
        OrderedVersions { store: self, base }
    }
}

impl OrderedVersions<'_> {
    /// In order, each with its number among the versions of its revision.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &KeyValue)> {
        let changes = self.store.changes_since(self.store.compacted());
        let events = changes.flat_map(|change| change.events.iter()).map(|event| &*event.kv);
        let base = self.base.iter().map(|(_, version)| *version);
        let mut last = (Revision(0), 0);
        base.chain(events).map(move |version| {
            let made = version.mod_revision;
            last = (made, if made == last.0 { last.1 + 1 } else { 0 });
            (last.1, version)
        })
    }
}
