//! Stories about disks, most of them bad.

#![allow(clippy::unwrap_used)]

mod damage;
mod directory;
mod fuzz;
mod golden;
mod log;
mod snapshots;
mod writer;

use std::path::Path;

use bytes::Bytes;
use tenure_api::{Member, MemberId, Term};
use tenure_replica::{Entry, EntryKind, HardState, LogIndex, Persist, SnapshotMark};

use super::{DataDir, DiskConfig, DiskError, Files, RecoveredLog, SavedSnapshot, SnapshotWriter};

const SMALL: DiskConfig = DiskConfig { first_segment_bytes: 1024, segment_bytes: 2048 };

fn open(path: &Path) -> (DataDir, RecoveredLog) {
    try_open(path).unwrap()
}

fn try_open(path: &Path) -> Result<(DataDir, RecoveredLog), DiskError> {
    DataDir::open_in(Files::shared(), path, None, SMALL)
}

fn entry(index: LogIndex, term: u64) -> Entry {
    let data = Bytes::from(format!("entry {index} of term {term}"));
    Entry { term: Term(term), index, kind: EntryKind::Commands, data }
}

fn entries(indexes: std::ops::RangeInclusive<LogIndex>, term: u64) -> Vec<Entry> {
    indexes.map(|index| entry(index, term)).collect()
}

fn appending(indexes: std::ops::RangeInclusive<LogIndex>, term: u64) -> Persist {
    Persist { entries: entries(indexes, term), ..Persist::default() }
}

fn vote(term: u64, member: u64, commit: LogIndex) -> HardState {
    HardState { term: Term(term), vote: Some(MemberId(member)), commit }
}

fn voting(hard_state: HardState) -> Persist {
    Persist { hard_state: Some(hard_state), ..Persist::default() }
}

fn mark(index: LogIndex, term: u64) -> SnapshotMark {
    SnapshotMark {
        index,
        term: Term(term),
        voters: vec![MemberId(1), MemberId(2)],
        learners: vec![MemberId(3)],
        outgoing: vec![],
    }
}

fn save(path: &Path, mark: SnapshotMark) -> SavedSnapshot {
    let mut writer = SnapshotWriter::create(&path.join("snap"), mark).unwrap();
    writer.chunk(b"state").unwrap();
    writer.finish().unwrap()
}

fn founders() -> Vec<Member> {
    let member = |id: u64| Member {
        id: MemberId(id),
        name: format!("n{id}"),
        peer_urls: vec![format!("http://h{id}:2380")],
        client_urls: vec![],
        is_learner: false,
    };
    vec![member(9), member(300)]
}
