//! What a batch holds: a length, a kind, and the thing in the replica's own byte language.

use tenure_replica::{
    Entry, HardState, LogIndex, Persist, SnapshotMark,
    codec::{Codec, DecodeError, Reader, put_u64},
};

const START: u8 = 1;
const HARD_STATE: u8 = 2;
const SNAPSHOT: u8 = 3;
const ENTRY: u8 = 4;
const RECORD_HEADER_BYTES: usize = 5;

/// One thing that the log remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Opens every segment, so that all earlier ones can be deleted: nothing in them is needed
    /// but entries.
    Start {
        /// Where the log ended when the segment was begun.
        next_index: LogIndex,
        /// The vote as it was then.
        hard_state: HardState,
    },
    /// The vote state changed.
    HardState(HardState),
    /// The log starts anew after this snapshot.
    Snapshot(SnapshotMark),
    /// An entry; it replaces the one of its index and all that follow.
    Entry(Entry),
}

/// Appends the record that opens a segment.
pub(crate) fn put_start(out: &mut Vec<u8>, next_index: LogIndex, hard_state: &HardState) {
    put(out, START, |out| {
        put_u64(out, next_index);
        hard_state.encode(out);
    });
}

/// Appends a snapshot's mark.
pub(crate) fn put_snapshot(out: &mut Vec<u8>, mark: &SnapshotMark) {
    put(out, SNAPSHOT, |out| mark.encode(out));
}

/// Appends everything of one write, a snapshot before the entries that follow it.
pub(crate) fn put_persist(out: &mut Vec<u8>, persist: &Persist) {
    if let Some(hard_state) = &persist.hard_state {
        put(out, HARD_STATE, |out| hard_state.encode(out));
    }
    if let Some(mark) = &persist.snapshot {
        put_snapshot(out, mark);
    }
    for entry in &persist.entries {
        put(out, ENTRY, |out| entry.encode(out));
    }
}

fn put(out: &mut Vec<u8>, kind: u8, content: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind]);
    content(out);
    let length = (out.len() - at - RECORD_HEADER_BYTES) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Reads the records of a batch, front to back, with where each starts.
pub(crate) fn records(body: &[u8]) -> impl Iterator<Item = (usize, Result<Record, DecodeError>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= body.len() {
            return None;
        }
        let start = at;
        let record = read(&body[start..]).map(|(record, bytes)| {
            at += bytes;
            record
        });
        if record.is_err() {
            at = body.len();
        }
        Some((start, record))
    })
}

fn read(bytes: &[u8]) -> Result<(Record, usize), DecodeError> {
    let header: &[u8; RECORD_HEADER_BYTES] = bytes.first_chunk().ok_or(DecodeError::Truncated)?;
    let length = u32::from_le_bytes(header[..4].try_into().expect("four bytes")) as usize;
    let content = bytes[RECORD_HEADER_BYTES..].get(..length).ok_or(DecodeError::Truncated)?;
    let record = match header[4] {
        START => {
            let mut reader = Reader::new(content);
            let next_index = reader.u64()?;
            let hard_state = HardState::decode(&mut reader)?;
            reader.finish()?;
            Record::Start { next_index, hard_state }
        }
        HARD_STATE => Record::HardState(HardState::from_bytes(content)?),
        SNAPSHOT => Record::Snapshot(SnapshotMark::from_bytes(content)?),
        ENTRY => Record::Entry(Entry::from_bytes(content)?),
        tag => return Err(DecodeError::UnknownTag { what: "log record", tag }),
    };
    Ok((record, RECORD_HEADER_BYTES + length))
}
