//! The part of the raft log that is held in memory, as raft-rs wants to read it.
//!
//! Everything here is also in the WAL or on its way there. The front is cut off as entries become
//! useless: applied here and known to every follower, or too many bytes for a follower that lags,
//! which then gets a snapshot instead.

use std::collections::VecDeque;

use raft::{
    Error, GetEntriesContext, RaftState, Result, Storage, StorageError,
    eraftpb::{ConfState, Entry, HardState, Snapshot},
};

use super::translate::{conf_state, mark_at, snapshot_of};
use tenure_api::Term;

use crate::log::{LogIndex, SnapshotMark};

/// The newest entries of the log.
#[derive(Debug, Default)]
pub(super) struct LogTail {
    /// The entry just before the first one held, and its term.
    before: (LogIndex, u64),
    entries: VecDeque<Entry>,
    bytes: usize,
    hard_state: HardState,
    conf_state: ConfState,
    /// How far the state is: a snapshot can be had of that, and of nothing else.
    applied: LogIndex,
    /// An entry added a member. It can do nothing with the log's first entry: that builds on a list of members
    /// that it never had.
    has_grown: bool,
}

impl LogTail {
    pub(super) fn new(start: &SnapshotMark, hard_state: HardState) -> LogTail {
        LogTail {
            before: (start.index, start.term.0),
            hard_state,
            conf_state: conf_state(start),
            applied: start.index,
            ..LogTail::default()
        }
    }

    /// Appends entries; those at or after the first one's index are replaced.
    pub(super) fn append(&mut self, entries: Vec<Entry>) {
        let Some(first) = entries.first().map(|entry| entry.index) else { return };
        assert!(first > self.before.0 && first <= self.last() + 1, "the log has no gaps");
        while self.last() >= first {
            if let Some(replaced) = self.entries.pop_back() {
                self.bytes -= weight(&replaced);
            }
        }
        self.bytes += entries.iter().map(weight).sum::<usize>();
        self.entries.extend(entries);
    }

    /// A snapshot was installed: the log starts anew after it.
    pub(super) fn restart(&mut self, mark: &SnapshotMark) {
        self.before = (mark.index, mark.term.0);
        self.entries.clear();
        self.bytes = 0;
        self.conf_state = conf_state(mark);
        self.applied = mark.index;
    }

    /// The state has come to `index`.
    pub(super) fn applied(&mut self, index: LogIndex) {
        self.applied = index;
    }

    /// The configuration as changed by an entry that is being applied.
    pub(super) fn set_conf_state(&mut self, mut conf_state: ConfState) {
        for members in
            [&mut conf_state.voters, &mut conf_state.learners, &mut conf_state.voters_outgoing]
        {
            members.sort_unstable();
        }
        self.conf_state = conf_state;
    }

    /// A member was added, which begins with a snapshot.
    pub(super) fn member_added(&mut self) {
        self.has_grown = true;
    }

    /// Drops from the front what is of no use or too much.
    pub(super) fn trim(&mut self, trim: &Trim) {
        let index = trim.useless.max(u64::from(self.has_grown));
        while let Some(first) = self.entries.front() {
            let useless = first.index <= index
                || self.bytes > trim.bytes_max && first.index <= trim.unwanted
                || self.bytes > trim.wanted_bytes_max;
            if !useless || first.index > trim.applied {
                break;
            }
            self.bytes -= weight(first);
            self.before = (first.index, first.term);
            self.entries.pop_front();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn conf_state(&self) -> &ConfState {
        &self.conf_state
    }

    pub(super) fn last(&self) -> LogIndex {
        self.before.0 + self.entries.len() as u64
    }

    pub(super) fn first(&self) -> LogIndex {
        self.before.0 + 1
    }
}

/// What of the log need not be held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trim {
    /// Up to here every member has it.
    pub(crate) useless: LogIndex,
    /// Up to here all members that were sent the state have it, or will when it has arrived.
    pub(crate) unwanted: LogIndex,
    /// No more bytes than this for the others.
    pub(crate) bytes_max: usize,
    /// And for those.
    pub(crate) wanted_bytes_max: usize,
    /// Nothing beyond this is dropped.
    pub(crate) applied: LogIndex,
}

/// What an entry counts for in the limits.
fn weight(entry: &Entry) -> usize {
    entry.data.len() + entry.context.len() + 64
}

impl Storage for LogTail {
    fn initial_state(&self) -> Result<RaftState> {
        Ok(RaftState { hard_state: self.hard_state.clone(), conf_state: self.conf_state.clone() })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        if low < self.first() {
            return Err(Error::Store(StorageError::Compacted));
        }
        let max_size = max_size.into().unwrap_or(u64::MAX);
        let from = (low - self.first()) as usize;
        let until = (high - self.first()) as usize;
        let mut size = 0;
        let mut entries = Vec::new();
        for entry in self.entries.range(from..until) {
            size += weight(entry) as u64;
            if size > max_size && !entries.is_empty() {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> Result<u64> {
        if index == self.before.0 {
            return Ok(self.before.1);
        }
        if index < self.before.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        match self.entries.get((index - self.first()) as usize) {
            Some(entry) => Ok(entry.term),
            None => Err(Error::Store(StorageError::Unavailable)),
        }
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last())
    }

    /// What is sent in the end is the state as it is then, which is this one or a later one.
    fn snapshot(&self, _request_index: u64, _to: u64) -> Result<Snapshot> {
        let term = Term(self.term(self.applied)?);
        Ok(snapshot_of(&mark_at(self.applied, term, &self.conf_state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of entries that weigh 100 each.
    fn log(entries: u64) -> LogTail {
        let entry = |index| Entry { index, term: 1, data: vec![0; 36].into(), ..Entry::default() };
        let mut tail = LogTail::default();
        tail.append((1..=entries).map(entry).collect());
        tail
    }

    fn first_after(trim: Trim) -> LogIndex {
        let mut tail = log(20);
        tail.trim(&trim);
        tail.first()
    }

    #[test]
    fn log_tail_keeps_what_members_may_still_need() {
        let all_have = Trim {
            useless: 12,
            unwanted: 20,
            bytes_max: 2000,
            wanted_bytes_max: 2000,
            applied: 20,
        };
        assert_eq!(first_after(all_have), 13, "all members have it");
        let away = Trim { useless: 0, bytes_max: 500, wanted_bytes_max: 1000, ..all_have };
        assert_eq!(first_after(away), 16, "a member that lags too far gets a snapshot");
        let catching_up = Trim { unwanted: 7, wanted_bytes_max: 2000, ..away };
        assert_eq!(first_after(catching_up), 8, "a member waits for what follows");
        let far_behind = Trim { wanted_bytes_max: 1000, ..catching_up };
        assert_eq!(first_after(far_behind), 11, "but not for any price");
        let not_applied = Trim { applied: 4, ..far_behind };
        assert_eq!(first_after(not_applied), 5, "what is not applied is kept");
    }
}
