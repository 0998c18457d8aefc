//! All kept versions of one key, oldest first.

use std::sync::Arc;

use imbl::Vector;
use tenure_api::{KeyValue, Revision};

/// Never empty. Most keys have one version once compaction has passed over them, and pay for no
/// list; one that is written a million times between compactions still adds a version in
/// constant time, even while a frozen clone shares the list.
#[derive(Clone, Debug)]
pub(super) enum History {
    One(Arc<KeyValue>),
    Many(Arc<Vector<Arc<KeyValue>>>),
}

impl History {
    pub(super) fn new(first: Arc<KeyValue>) -> History {
        History::One(first)
    }

    /// The last version, which may be a tombstone.
    pub(super) fn newest(&self) -> &Arc<KeyValue> {
        match self {
            History::One(only) => only,
            History::Many(versions) => versions.last().expect("a history is never empty"),
        }
    }

    /// The last version, unless the key is deleted.
    pub(super) fn live(&self) -> Option<&Arc<KeyValue>> {
        Some(self.newest()).filter(|version| !version.is_tombstone())
    }

    /// What the key was at a revision.
    pub(super) fn live_at(&self, revision: Revision) -> Option<&Arc<KeyValue>> {
        // Most reads of the past are of the recent past.
        if self.newest().mod_revision <= revision {
            return self.live();
        }
        let after = self.first_after(revision);
        after.checked_sub(1).and_then(|at| self.get(at)).filter(|version| !version.is_tombstone())
    }

    pub(super) fn push(&mut self, version: Arc<KeyValue>) {
        match self {
            History::One(first) => {
                let versions = Vector::from_iter([first.clone(), version]);
                *self = History::Many(Arc::new(versions));
            }
            History::Many(versions) => Arc::make_mut(versions).push_back(version),
        }
    }

    /// Forgets the oldest version, unless it is the only one.
    pub(super) fn pop_oldest(&mut self) -> Option<Arc<KeyValue>> {
        let History::Many(versions) = self else { return None };
        let versions = Arc::make_mut(versions);
        let oldest = versions.pop_front();
        if versions.len() == 1
            && let Some(only) = versions.pop_front()
        {
            *self = History::One(only);
        }
        oldest
    }

    pub(super) fn oldest(&self) -> &Arc<KeyValue> {
        match self {
            History::One(only) => only,
            History::Many(versions) => versions.front().expect("a history is never empty"),
        }
    }

    /// The versions that a reader at `compacted` or later can tell apart: what the key was at that
    /// revision, and all that came after. It does not matter how far the sweep has come.
    pub(super) fn since(&self, compacted: Revision) -> impl Iterator<Item = &Arc<KeyValue>> {
        let after = self.first_after(compacted);
        let base = after.checked_sub(1).and_then(|at| self.get(at));
        let base = base.filter(|version| !version.is_tombstone());
        base.into_iter().chain((after..self.len()).filter_map(|at| self.get(at)))
    }

    /// How many versions were made at or before a revision.
    fn first_after(&self, revision: Revision) -> usize {
        match self {
            History::One(only) => usize::from(only.mod_revision <= revision),
            History::Many(versions) => {
                let (mut low, mut high) = (0, versions.len());
                while low < high {
                    let middle = low.midpoint(high);
                    if versions[middle].mod_revision <= revision {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                low
            }
        }
    }

    fn get(&self, at: usize) -> Option<&Arc<KeyValue>> {
        match self {
            History::One(only) => (at == 0).then_some(only),
            History::Many(versions) => versions.get(at),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            History::One(_) => 1,
            History::Many(versions) => versions.len(),
        }
    }
}
