//! Forgetting the past: at once as a promise, bit by bit as memory.

use std::sync::Arc;

use tenure_api::{Event, EventKind, Failure, Revision};

use super::{Change, Store, store::cost};

impl Store {
    /// Gives up everything before `revision`. Reads at it and later go on as before.
    pub fn compact(&mut self, revision: Revision) -> Result<(), Failure> {
        // To give up nothing where nothing was given up is no mistake, says etcd. It says so once; here it may
        // be said again, because whether it was is not part of the state.
        if revision == self.compacted && revision == Revision(0) {
            return Ok(());
        }
        if revision <= self.compacted {
            return Err(Failure::Compacted);
        }
        if revision > self.revision {
            return Err(Failure::FutureRevision);
        }
        self.compacted = revision;
        self.forget_previous_versions();
        Ok(())
    }

    /// Frees what compaction made unreachable, at most `budget` events. True: there is more to do.
    ///
    /// It goes through the changes up to the compacted revision, oldest first. Each event made the
    /// versions of its key before it unreachable, and itself if it is a deletion, so a step frees a
    /// version or two, however many keys the store has or versions the key.
    pub fn sweep(&mut self, budget: usize) -> bool {
        if self.is_swept() {
            return false;
        }
        for _ in 0..budget {
            if !self.sweep_event() {
                break;
            }
        }
        self.drop_swept_changes();
        !self.is_swept()
    }

    /// Whether nothing is left to sweep.
    pub fn is_swept(&self) -> bool {
        self.changes.front().is_none_or(|first| {
            first.revision > self.compacted
                || first.revision == self.compacted && self.swept_events == first.events.len()
        })
    }

    /// Sweeps one event; false if there was none.
    fn sweep_event(&mut self) -> bool {
        self.drop_swept_changes();
        let Some(first) = self.changes.front() else { return false };
        if first.revision > self.compacted {
            return false;
        }
        let Some(event) = first.events.get(self.swept_events) else { return false };
        let event = event.clone();
        self.swept_events += 1;
        self.forget_before(&event);
        true
    }

    /// The change at the compacted revision stays until the next compaction, swept or not.
    fn drop_swept_changes(&mut self) {
        let Some(first) = self.changes.front() else { return };
        if first.revision < self.compacted && self.swept_events == first.events.len() {
            self.changes.pop_front();
            self.swept_events = 0;
        }
    }

    fn forget_before(&mut self, event: &Event) {
        let key = &event.kv.key[..];
        let at = event.kv.mod_revision;
        let deleted = event.kind == EventKind::Delete;
        let Some(history) = self.keys.get(key) else { return };
        let oldest = history.oldest();
        // Already so after a restore, or for a key that was created here: leave shared nodes alone.
        if oldest.mod_revision > at || oldest.mod_revision == at && !deleted {
            return;
        }
        let Some(history) = self.keys.get_mut(key) else { return };
        loop {
            let oldest = history.oldest();
            let (made, tombstone) = (oldest.mod_revision, oldest.is_tombstone());
            if made > at || made == at && !deleted {
                return;
            }
            let freed = cost(oldest);
            let last = history.pop_oldest().is_none();
            self.bytes -= freed;
            if last {
                self.keys.remove(key);
                return;
            }
            if made == at && tombstone {
                return;
            }
        }
    }

    /// Events at the compacted revision lose sight of the version before, which is compacted: etcd
    /// sends none then, and it must not depend on how far the sweep has come. Costs as much as the
    /// events of that one revision.
    fn forget_previous_versions(&mut self) {
        let at = self.change_at_or_after(self.compacted);
        let Some(change) = self.changes.get_mut(at) else { return };
        if change.revision == self.compacted {
            let events: Arc<[Event]> =
                change.events.iter().map(|event| Event { prev: None, ..event.clone() }).collect();
            *change = Change { revision: change.revision, events };
        }
    }
}
