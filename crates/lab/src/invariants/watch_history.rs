//! A watcher receives every event of its keys, once, in order, in whole revisions, from where it began, whatever happens
//! to the member that it watches at.

use tenure_api::{Event, Revision};
use tenure_replica::watch::Interest;

use super::must;
use crate::{cluster::truth::Truth, engine::RunCounts};

pub const NAME: &str = "watch_history";

/// One watch as its client follows it, over as many members as it takes.
#[derive(Clone, Debug)]
pub struct WatchHistory {
    pub interest: Interest,
    /// Every event of interest before this revision was received.
    pub next: Revision,
}

impl WatchHistory {
    pub fn hear(&mut self, events: &[Event], truth: &Truth, counts: &mut RunCounts) {
        counts.count(NAME);
        let last = events.last().map(|event| event.kv.mod_revision);
        must!(last.is_some(), "a watcher was told of nothing");
        let last = last.expect("just checked");
        must!(last >= self.next, "{:?} was told of {last} again", self.interest);
        let missed = self.expected(truth, last);
        let same = missed.len() == events.len()
            && missed.iter().zip(events).all(|(a, b)| a.kind == b.kind && a.kv == b.kv);
        must!(
            same,
            "{:?} from {} on: expected {missed:?}, heard {events:?}",
            self.interest,
            self.next
        );
        self.next = last.next();
    }

    /// No event up to this revision may still come.
    pub fn check_progress(&mut self, up_to: Revision, truth: &Truth, counts: &mut RunCounts) {
        counts.count(NAME);
        let missed = self.expected(truth, up_to);
        must!(missed.is_empty(), "{:?} heard progress {up_to} but not {missed:?}", self.interest);
        self.next = self.next.max(up_to.next());
    }

    /// Only a compaction beyond what was received may end it.
    pub fn check_compacted(&self, compacted: Revision, truth: &Truth) {
        let real = truth.state().store.compacted();
        must!(
            self.next < compacted && compacted <= real,
            "a watch at {} was ended by compaction {compacted}, the real one is {real}",
            self.next
        );
    }

    fn expected<'a>(&self, truth: &'a Truth, up_to: Revision) -> Vec<&'a Event> {
        truth
            .changes_since(self.next)
            .iter()
            .take_while(|change| change.revision <= up_to)
            .flat_map(|change| change.events.iter())
            .filter(|event| self.interest.admits(event))
            .collect()
    }
}
