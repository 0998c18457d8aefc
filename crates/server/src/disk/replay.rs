//! Reading a log back, and judging what is wrong with it. Nothing here writes.
//!
//! A batch that cannot be read is **corruption** if anything proves that it had been flushed: a
//! later segment exists (one is begun only after all before it was flushed), or a later header in the same segment
//! says so. So is a file that is shorter than it was made: what was cut off may have been any number of
//! flushed batches, and the last that is left would look like a clean end. Otherwise it is a **tear**: the member died while writing it, before anybody was told.
//! A damaged *last* batch looks exactly like a tear and is treated as one, because nothing that
//! was written after it can vouch for it.

use std::{
    fs::{File, OpenOptions},
    io::{BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use tenure_replica::LogIndex;

use super::{
    DiskError,
    batch::{BATCH_ALIGNMENT, BATCH_HEADER_BYTES, BatchHeader},
    history::History,
    record::{Record, records},
    segment::{SEGMENT_HEADER_BYTES, check_header},
};

/// No log gets here by counting; and from here on there is room to count.
const BATCHES_MAX: u64 = 1 << 62;
const READ_BYTES: usize = 256 << 10;
static ZEROS: [u8; READ_BYTES] = [0; READ_BYTES];

/// Everything that was read, and where to go on.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) history: History,
    /// All segments, oldest first; the last is the running one.
    pub(super) segments: Vec<KnownSegment>,
    /// The running segment, open for writing.
    pub(super) file: File,
    /// Where its next batch goes.
    pub(super) offset: u64,
    /// Its size.
    pub(super) capacity: u64,
    /// The newest batch.
    pub(super) number: u64,
    /// The checksum that the next header repeats.
    pub(super) chain: u32,
    /// Where in the running segment the batches start that no later header vouches for.
    pub(super) unproven_from: u64,
    /// Bytes after `offset` that are not zero.
    pub(super) torn_bytes: u64,
}

/// A segment and what it holds.
#[derive(Clone, Debug)]
pub(super) struct KnownSegment {
    pub(super) sequence: u64,
    pub(super) path: PathBuf,
    /// The highest index of any entry or snapshot mark in it.
    pub(super) last_index: LogIndex,
}

/// Reads all segments.
pub(super) fn replay(listed: Vec<(u64, PathBuf)>, directory: u64) -> Result<Replay, DiskError> {
    let mut reading = Reading {
        mark: directory as u32,
        history: History::default(),
        newest: None,
        unproven: Vec::new(),
    };
    let mut segments: Vec<KnownSegment> = Vec::new();
    let mut tail: Option<(PathBuf, End)> = None;
    for (sequence, path) in listed {
        if let Some((before, end)) = tail.take() {
            check_end_is_empty(&before, &end)?;
        }
        reading.unproven.clear();
        let mut segment = KnownSegment { sequence, path, last_index: 0 };
        let end = reading.read_segment(&mut segment, directory, segments.last())?;
        tail = Some((segment.path.clone(), end));
        segments.push(segment);
    }
    let (path, end) = tail.expect("a log has at least one segment");
    let torn_bytes = judge_tail(&path, &end, reading.next_number(), reading.mark)?;
    let unproven_from = reading.unproven.first().map_or(end.offset, |(_, offset)| *offset);
    Ok(Replay {
        history: reading.history,
        segments,
        file: end.file,
        offset: end.offset,
        capacity: end.capacity,
        number: reading.newest.map_or(0, |newest| newest.number),
        chain: reading.newest.map_or(0, |newest| newest.crc),
        unproven_from,
        torn_bytes,
    })
}

/// Where the good part of a segment ends.
struct End {
    file: File,
    offset: u64,
    capacity: u64,
}

struct Reading {
    mark: u32,
    history: History,
    newest: Option<BatchHeader>,
    /// Number and offset of the batches in this segment that no later header called flushed.
    unproven: Vec<(u64, u64)>,
}

impl Reading {
    fn next_number(&self) -> u64 {
        self.newest.map_or(1, |newest| newest.number + 1)
    }

    /// Reads batches until one is not good, or the end.
    fn read_segment(
        &mut self,
        segment: &mut KnownSegment,
        directory: u64,
        before: Option<&KnownSegment>,
    ) -> Result<End, DiskError> {
        let path = segment.path.clone();
        let failed = |cause| DiskError::io("read segment", &path)(cause);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(DiskError::io("open segment", &path))?;
        let capacity = file.metadata().map_err(failed)?.len();
        let mut input = BufReader::with_capacity(READ_BYTES, &file);
        let mut header = Vec::new();
        input.by_ref().take(SEGMENT_HEADER_BYTES).read_to_end(&mut header).map_err(failed)?;
        let made = check_header(&path, &header, directory, segment.sequence)?;
        if capacity < made {
            let what =
                format!("the file ends here, but it was {made} bytes long before it was used");
            return Err(DiskError::corrupt(&path, capacity, what));
        }

        let mut offset = SEGMENT_HEADER_BYTES;
        let mut body = Vec::new();
        while offset + BATCH_HEADER_BYTES as u64 <= capacity {
            let mut header = [0; BATCH_HEADER_BYTES];
            input.read_exact(&mut header).map_err(failed)?;
            let Some(header) = BatchHeader::parse(&header, self.mark) else { break };
            let end = offset + (BATCH_HEADER_BYTES + header.padded()) as u64;
            if end > capacity {
                break;
            }
            body.resize(header.padded(), 0);
            input.read_exact(&mut body).map_err(failed)?;
            if crc32fast::hash(&body) != header.body_crc {
                break;
            }
            self.check_order(&header, &path, offset, before)?;
            self.apply(&header, &body, segment, offset)?;
            self.unproven.retain(|(number, _)| *number > header.durable);
            self.unproven.push((header.number, offset));
            self.newest = Some(header);
            offset = end;
        }
        drop(input);
        Ok(End { file, offset, capacity })
    }

    /// A sound batch must be the one that follows; nothing ever puts another in its place.
    fn check_order(
        &self,
        header: &BatchHeader,
        path: &Path,
        offset: u64,
        before: Option<&KnownSegment>,
    ) -> Result<(), DiskError> {
        if header.number > BATCHES_MAX {
            let what = format!("no log has a batch {}", header.number);
            return Err(DiskError::corrupt(path, offset, what));
        }
        let Some(newest) = &self.newest else { return Ok(()) };
        if header.number == newest.number + 1 && header.previous == newest.crc {
            return Ok(());
        }
        let at = match before {
            Some(before) if offset == SEGMENT_HEADER_BYTES => {
                format!("batches at the end of {} are missing", before.path.display())
            }
            _ => "a batch is out of place".into(),
        };
        let what = format!("{at}: batch {} follows batch {}", header.number, newest.number);
        Err(DiskError::corrupt(path, offset, what))
    }

    fn apply(
        &mut self,
        header: &BatchHeader,
        body: &[u8],
        segment: &mut KnownSegment,
        offset: u64,
    ) -> Result<(), DiskError> {
        for (at, record) in records(&body[..header.length as usize]) {
            let bad = |what: String| {
                let at = offset + (BATCH_HEADER_BYTES + at) as u64;
                DiskError::corrupt(&segment.path, at, what)
            };
            let record = record.map_err(|error| bad(error.to_string()))?;
            let index = match &record {
                Record::Entry(entry) => entry.index,
                Record::Snapshot(mark) => mark.index,
                Record::Start { .. } | Record::HardState(_) => 0,
            };
            self.history.apply(record).map_err(bad)?;
            segment.last_index = segment.last_index.max(index);
        }
        Ok(())
    }
}

/// A segment that another one follows was flushed to its end: after its batches come only zeros.
fn check_end_is_empty(path: &Path, end: &End) -> Result<(), DiskError> {
    let (rest, _) = nonzero_rest(path, end)?;
    if rest.is_empty() {
        return Ok(());
    }
    let what = "a batch is damaged, though the log continues in the next segment";
    Err(DiskError::corrupt(path, end.offset, what))
}

/// Decides between clean end, tear and corruption. Answers how many bytes are torn.
fn judge_tail(path: &Path, end: &End, expected: u64, mark: u32) -> Result<u64, DiskError> {
    let (rest, torn) = nonzero_rest(path, end)?;
    for at in (0..rest.len()).step_by(BATCH_ALIGNMENT) {
        if let Some(header) = BatchHeader::parse(&rest[at..], mark)
            && header.number > expected
            && header.durable >= expected
        {
            let what = format!(
                "batch {expected} is damaged, though batch {} at offset {} was written after it \
                 had been flushed",
                header.number,
                end.offset + at as u64
            );
            return Err(DiskError::corrupt(path, end.offset, what));
        }
    }
    Ok(torn)
}

/// What follows the good part, empty if that is only zeros, and its length up to the last byte
/// that is not zero. Memory is taken only if there is something.
fn nonzero_rest(path: &Path, end: &End) -> Result<(Vec<u8>, u64), DiskError> {
    let failed = |cause| DiskError::io("read segment", path)(cause);
    let mut input = &end.file;
    input.seek(SeekFrom::Start(end.offset)).map_err(failed)?;
    let mut piece = vec![0; READ_BYTES];
    loop {
        let read = input.read(&mut piece).map_err(failed)?;
        if read == 0 {
            return Ok((Vec::new(), 0));
        }
        if piece[..read] != ZEROS[..read] {
            break;
        }
    }
    let mut rest = Vec::new();
    input.seek(SeekFrom::Start(end.offset)).map_err(failed)?;
    input.read_to_end(&mut rest).map_err(failed)?;
    let last = rest.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    Ok((rest, last as u64))
}
