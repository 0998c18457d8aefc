//! A disk that keeps what was flushed and nothing else.
//!
//! It writes as the server does: everything that waits goes into one batch, and only when that is
//! flushed does the next begin. A crash loses what waits and any suffix of the batch being written.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tenure_api::Term;
use tenure_replica::{
    Entry, Frozen, HardState, LogIndex, Persist, Recovered, SnapshotMark, State, Thaw,
};

use crate::engine::{Counts, Dice, ms, us};

/// The log as a sequence of writes leaves it.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The entry before the first.
    pub base: (LogIndex, Term),
    pub entries: VecDeque<Entry>,
    pub hard_state: HardState,
}

impl Log {
    pub fn write(&mut self, persist: &Persist) {
        if let Some(mark) = &persist.snapshot {
            self.base = (mark.index, mark.term);
            self.entries.clear();
        }
        if let Some(hard_state) = persist.hard_state {
            self.hard_state = hard_state;
        }
        for entry in &persist.entries {
            assert!(entry.index > self.base.0, "a write goes behind the log's start");
            assert!(entry.index <= self.last() + 1, "a write leaves a gap in the log");
            self.entries.truncate((entry.index - self.base.0 - 1) as usize);
            self.entries.push_back(entry.clone());
        }
    }

    pub fn last(&self) -> LogIndex {
        self.base.0 + self.entries.len() as u64
    }

    pub fn get(&self, index: LogIndex) -> Option<&Entry> {
        self.entries.get(index.checked_sub(self.base.0 + 1)? as usize)
    }

    pub fn term(&self, index: LogIndex) -> Option<Term> {
        if index == self.base.0 {
            return Some(self.base.1);
        }
        self.get(index).map(|entry| entry.term)
    }

    /// Forgets what a snapshot covers.
    fn release(&mut self, until: LogIndex) {
        while self.entries.front().is_some_and(|entry| entry.index <= until) {
            if let Some(entry) = self.entries.pop_front() {
                self.base = (entry.index, entry.term);
            }
        }
    }
}

pub type Chunks = Vec<Vec<u8>>;

#[derive(Debug)]
pub struct Disk {
    pub boot: u64,
    pub durable: Log,
    pub snapshots: BTreeMap<LogIndex, (SnapshotMark, Chunks)>,
    waiting: VecDeque<Persist>,
    writing: Vec<Persist>,
    /// How long a flush takes.
    pub flush: (Duration, Duration),
    /// Flushes do not end while this is not zero.
    pub stalls: u32,
    /// Nothing more can be written.
    pub full: bool,
    /// The next flush fails.
    pub fails: bool,
}

pub const FAST: (Duration, Duration) = (us(60), us(600));
pub const SLOW: (Duration, Duration) = (ms(5), ms(60));
const SNAPSHOTS_KEPT: usize = 2;

impl Default for Disk {
    fn default() -> Disk {
        Disk {
            boot: 0,
            durable: Log::default(),
            snapshots: BTreeMap::new(),
            waiting: VecDeque::new(),
            writing: vec![],
            flush: FAST,
            stalls: 0,
            full: false,
            fails: false,
        }
    }
}

impl Disk {
    pub fn submit(&mut self, persist: Persist) {
        self.waiting.push_back(persist);
    }

    /// Begins the next batch if none is under way. True if it did.
    pub fn begin(&mut self) -> bool {
        if !self.writing.is_empty() || self.waiting.is_empty() {
            return false;
        }
        self.writing = self.waiting.drain(..).collect();
        true
    }

    /// The batch under way is durable. Answers its numbers.
    pub fn flushed(&mut self) -> Vec<u64> {
        let batch = std::mem::take(&mut self.writing);
        for persist in &batch {
            self.durable.write(persist);
        }
        batch.iter().map(|persist| persist.number).collect()
    }

    /// For disks that lie: the numbers of everything submitted, durable or not.
    pub fn submitted(&self) -> Vec<u64> {
        self.writing.iter().chain(&self.waiting).map(|persist| persist.number).collect()
    }

    /// The process is gone. Some of what was being written may have got through.
    pub fn crash(&mut self, dice: &mut Dice, counts: &mut Counts) {
        let through = dice.below(self.writing.len() as u64 + 1) as usize;
        if through < self.writing.len() {
            counts.count(if through == 0 { "unsynced_lost" } else { "torn_tail" });
        }
        for persist in self.writing.drain(..).take(through) {
            self.durable.write(&persist);
        }
        self.waiting.clear();
    }

    pub fn save(&mut self, mark: SnapshotMark, chunks: Chunks) {
        self.snapshots.insert(mark.index, (mark, chunks));
        while self.snapshots.len() > SNAPSHOTS_KEPT {
            self.snapshots.pop_first();
        }
    }

    /// A snapshot of our own state is saved: the log before it is of no use.
    pub fn release(&mut self, until: LogIndex) {
        self.durable.release(until);
    }

    /// Whether this entry would be there after a crash right now.
    pub fn has_durably(&self, index: LogIndex, term: Term) -> bool {
        self.snapshots.last_key_value().is_some_and(|(saved, _)| *saved >= index)
            || self.durable.term(index) == Some(term)
    }

    /// What a process finds that starts now; the rules are those of the server's disk.
    pub fn recover(&mut self) -> Recovered {
        self.boot += 1;
        self.waiting.clear();
        self.writing.clear();
        let snapshot = self.snapshots.last_key_value().map(|(_, saved)| saved.clone());
        let log = &mut self.durable;
        if let Some((mark, _)) = &snapshot {
            let known = if mark.index < log.base.0 { None } else { log.term(mark.index) };
            if known == Some(mark.term) {
                log.release(mark.index);
            } else {
                // It came from a peer, and the crash came before the log heard of it.
                assert!(
                    known.is_none() || log.hard_state.commit < mark.index,
                    "a committed entry contradicts a snapshot"
                );
                log.base = (mark.index, mark.term);
                log.entries.clear();
            }
            log.hard_state.commit = log.hard_state.commit.max(mark.index);
            if log.hard_state.term < mark.term {
                log.hard_state.term = mark.term;
                log.hard_state.vote = None;
            }
        }
        Recovered {
            boot: self.boot,
            snapshot: snapshot.map(|(mark, chunks)| (mark, thaw(&chunks))),
            hard_state: log.hard_state,
            entries: log.entries.iter().cloned().collect(),
        }
    }
}

pub fn freeze(frozen: &Frozen) -> Chunks {
    frozen.chunks().collect()
}

pub fn thaw(chunks: &Chunks) -> State {
    let mut thaw = Thaw::new();
    for chunk in chunks {
        thaw.chunk(chunk).expect("a chunk that was just written can be read");
    }
    thaw.finish().expect("all chunks were handed in")
}
