//! A member's disk: the shipped log, snapshots and recovery on a [`Device`].
//!
//! It writes as the server does: all waiting writes go into one batch, and the next batch begins when that one is
//! flushed. What must survive a crash is recorded beside the disk, and every recovery is compared with it.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    path::Path,
    sync::Arc,
    time::Duration,
};

use tenure_api::{ClusterId, Member, MemberId, Term};
use tenure_disk::{DataDir, DiskConfig, DiskError, Identity, SnapshotWriter, snapshot::load_in};
use tenure_replica::{
    Entry, HardState, LogIndex, Persist, Recovered, Snapshot, SnapshotMark, SnapshotReader, State,
};

use crate::{
    device::{Device, DeviceFaults},
    engine::{Dice, RunCounts, ms, us},
};

/// The log that results from a sequence of writes.
#[derive(Clone, Debug, Default)]
pub struct LogModel {
    /// The entry before the first.
    pub base: (LogIndex, Term),
    pub entries: VecDeque<Entry>,
    pub hard_state: HardState,
}

impl LogModel {
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

    /// Drops what a snapshot covers.
    fn release(&mut self, until: LogIndex) {
        while self.entries.front().is_some_and(|entry| entry.index <= until) {
            if let Some(entry) = self.entries.pop_front() {
                self.base = (entry.index, entry.term);
            }
        }
    }
}

pub type Chunks = Vec<Vec<u8>>;

/// Where the data directory lies on the device.
const HOME: &str = "data";

#[derive(Debug)]
pub struct SimDisk {
    /// How often the directory was opened.
    pub boot: u64,
    pub device: Device,
    config: DiskConfig,
    /// Open while a process uses it.
    log: Option<tenure_disk::Log>,
    /// What was flushed: it must be there after a crash.
    pub durable: LogModel,
    /// Written and not flushed: after a crash the first few of these batches are there, or all, or none.
    unflushed: Vec<Vec<Persist>>,
    pub snapshots: BTreeMap<LogIndex, SnapshotMark>,
    waiting: VecDeque<Persist>,
    /// The batch under way, and whether it must be flushed.
    writing: Vec<Persist>,
    written: Result<bool, DiskError>,
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

impl SimDisk {
    /// An empty disk. The seed determines the sizes of the log's files.
    pub fn new(seed: u64) -> SimDisk {
        let mut dice = Dice::new(seed ^ 0x0064_6973_6b00);
        let first = 1024 << dice.below(6);
        let config =
            DiskConfig { first_segment_bytes: first, segment_bytes: first << dice.below(4) };
        SimDisk {
            boot: 0,
            device: Device::new(dice.next_u64()),
            config,
            log: None,
            durable: LogModel::default(),
            unflushed: vec![],
            snapshots: BTreeMap::new(),
            waiting: VecDeque::new(),
            writing: vec![],
            written: Ok(false),
            flush: FAST,
            stalls: 0,
            full: false,
            fails: false,
        }
    }

    /// The disk of a member that begins with a restored state.
    pub fn restored(seed: u64, mark: SnapshotMark, chunks: &Chunks) -> SimDisk {
        let mut disk = SimDisk::new(seed);
        drop(disk.open().expect("nothing is wrong with a new disk"));
        disk.save(mark, chunks).expect("nothing is wrong with a new disk");
        disk
    }

    fn open(&self) -> Result<(DataDir, tenure_disk::RecoveredLog), DiskError> {
        let storage = Arc::new(self.device.clone());
        DataDir::open_in(storage, Path::new(HOME), None, self.config)
    }

    fn set_device_faults(&self) {
        let SimDisk { full, fails, .. } = *self;
        self.device.set_faults(DeviceFaults { full, fails });
    }

    pub fn submit(&mut self, persist: Persist) {
        self.waiting.push_back(persist);
    }

    /// Begins the next batch if none is under way. True if it did.
    pub fn begin(&mut self) -> bool {
        if !self.writing.is_empty() || self.waiting.is_empty() {
            return false;
        }
        self.set_device_faults();
        self.writing = self.waiting.drain(..).collect();
        let log = self.log.as_mut().expect("a process has its log open");
        self.written = log.write(&self.writing);
        true
    }

    /// The batch under way is done. Returns its numbers; after an error the process must end.
    pub fn flushed(&mut self) -> Result<Vec<u64>, DiskError> {
        self.set_device_faults();
        let log = self.log.as_mut().expect("a process has its log open");
        let must_flush = std::mem::replace(&mut self.written, Ok(false))?;
        if must_flush {
            log.flush()?;
        }
        let batch = std::mem::take(&mut self.writing);
        let numbers = batch.iter().map(|persist| persist.number).collect();
        self.unflushed.push(batch);
        if must_flush {
            for persist in self.unflushed.drain(..).flatten() {
                self.durable.write(&persist);
            }
        }
        log.upkeep()?;
        Ok(numbers)
    }

    /// For disks that lie: the numbers of all submitted writes, durable or not.
    pub fn submitted(&self) -> Vec<u64> {
        self.writing.iter().chain(&self.waiting).map(|persist| persist.number).collect()
    }

    /// The process has ended. Unflushed writes may be there or not.
    pub fn crash(&mut self, dice: &mut Dice, counts: &mut RunCounts) {
        self.log = None;
        if !self.writing.is_empty() {
            self.unflushed.push(std::mem::take(&mut self.writing));
        }
        self.waiting.clear();
        let crash = self.device.crash(dice);
        if crash.lost > 0 {
            counts.count(if crash.kept == 0 { "unsynced_lost" } else { "torn_tail" });
        }
    }

    /// Saves a snapshot of the member's own state, or one that came from a peer.
    pub fn save(&mut self, mark: SnapshotMark, chunks: &Chunks) -> Result<(), DiskError> {
        self.set_device_faults();
        let (storage, folder) = (Arc::new(self.device.clone()), Path::new(HOME).join("snap"));
        let mut writer = SnapshotWriter::create_in(storage, &folder, mark.clone())?;
        chunks.iter().try_for_each(|chunk| writer.chunk(chunk))?;
        writer.finish()?;
        self.snapshots.insert(mark.index, mark);
        while self.snapshots.len() > SNAPSHOTS_KEPT {
            self.snapshots.pop_first();
        }
        Ok(())
    }

    /// A snapshot of the member's own state is saved: the log before it is not needed.
    pub fn release(&mut self, until: LogIndex) -> Result<(), DiskError> {
        self.durable.release(until);
        let log = self.log.as_mut().expect("a process has its log open");
        log.release(until)
    }

    /// Whether this entry would survive a crash right now.
    pub fn has_durably(&self, index: LogIndex, term: Term) -> bool {
        self.snapshots.last_key_value().is_some_and(|(saved, _)| *saved >= index)
            || self.durable.term(index) == Some(term)
    }

    /// The term that would survive a crash right now.
    pub fn durable_term(&self) -> Term {
        self.durable.hard_state.term
    }

    /// What a process recovers that starts now.
    pub fn recover(&mut self, me: MemberId, founders: &[Member]) -> Result<Recovered, DiskError> {
        self.set_device_faults();
        self.log = None;
        self.waiting.clear();
        self.writing.clear();
        let (mut data, found) = self.open()?;
        if found.identity.is_none() {
            data.keep_founders(founders)?;
            let (cluster_id, joined) = (ClusterId(1), founders.is_empty());
            data.claim(Identity { cluster_id, member_id: me, joined })?;
        }
        let saved = found.snapshot.as_ref();
        let snapshot = saved
            .map(|saved| load_in(&self.device, &saved.path).expect("it was just read to its end"));
        let mark = snapshot.as_ref().map(|(mark, _)| mark.clone()).unwrap_or_default();
        self.check(&found, &mark);
        self.device.got_over();
        self.boot = found.boot;
        self.log = Some(data.into_log());
        self.snapshots.retain(|index, _| *index <= mark.index);
        self.durable = LogModel {
            base: (mark.index, mark.term),
            entries: found.entries.iter().cloned().collect(),
            hard_state: found.hard_state,
        };
        Ok(Recovered {
            boot: found.boot,
            snapshot,
            hard_state: found.hard_state,
            entries: found.entries,
        })
    }

    /// Checks that everything flushed was recovered, and of the unflushed batches only whole ones from the first on.
    fn check(&mut self, found: &tenure_disk::RecoveredLog, mark: &SnapshotMark) {
        let newest = self.snapshots.last_key_value().map_or(0, |(index, _)| *index);
        assert!(mark.index >= newest, "the snapshot of {newest} is gone, there is {}", mark.index);
        let mut log = self.durable.clone();
        let mut fits = log.leads_to(found, mark);
        for persist in
            self.unflushed.drain(..).flat_map(|batch| batch.into_iter().map(Some).chain([None]))
        {
            match persist {
                Some(persist) => log.write(&persist),
                None => fits |= log.leads_to(found, mark),
            }
        }
        assert!(
            fits,
            "the disk lost what was flushed: {:?} and a log up to {:?} became {:?} and {} entries after {}",
            self.durable.hard_state,
            (self.durable.last(), self.durable.term(self.durable.last())),
            found.hard_state,
            found.entries.len(),
            mark.index
        );
    }

    /// Whether the error needs an operator, because something on the disk is damaged.
    pub fn refuses(&self, error: &DiskError) -> bool {
        let refused = matches!(
            error,
            DiskError::Corrupt { .. }
                | DiskError::UnknownVersion { .. }
                | DiskError::Inconsistent { .. }
                | DiskError::Missing { .. }
                | DiskError::Foreign { .. }
        );
        assert!(!refused || self.device.is_damaged(), "nothing was damaged: {error}");
        refused
    }
}

impl LogModel {
    /// Whether recovery of this log, with that snapshot, gives what was found.
    fn leads_to(&self, found: &tenure_disk::RecoveredLog, mark: &SnapshotMark) -> bool {
        let ours = &self.hard_state;
        let vote = if ours.term < mark.term { (mark.term, None) } else { (ours.term, ours.vote) };
        let after = self.entries.iter().filter(|entry| entry.index > mark.index);
        let goes_on = mark.index >= self.base.0 && self.term(mark.index) == Some(mark.term);
        let entries = match goes_on {
            true => after.eq(&found.entries),
            false => found.entries.is_empty(),
        };
        let recovered = &found.hard_state;
        entries
            && vote == (recovered.term, recovered.vote)
            && recovered.commit == ours.commit.max(mark.index)
    }
}

/// Whether the error says that the disk is full.
pub fn is_full(error: &DiskError) -> bool {
    matches!(error, DiskError::Io { cause, .. } if cause.kind() == io::ErrorKind::StorageFull)
}

pub fn to_chunks(snapshot: &Snapshot) -> Chunks {
    snapshot.chunks().collect()
}

pub fn from_chunks(chunks: &Chunks) -> State {
    let mut reader = SnapshotReader::new();
    for chunk in chunks {
        reader.chunk(chunk).expect("a chunk that was just written can be read");
    }
    reader.finish().expect("all chunks were handed in")
}
