//! Reading a log back, and judging what is wrong with it. Nothing here writes.
//!
//! A batch that cannot be read is **corruption** if anything proves that it had been flushed: a
//! later segment exists (one is begun only after all before it was flushed), or a later header in the same segment
//! says so. So is a file that is shorter than it was made: what was cut off may have been any number of
//! flushed batches, and the last that is left would look like a clean end. And so is a batch of which every sector was
//! written: what a crash cuts short leaves at least one sector as it was, and that is zeros.
//! Otherwise it is a **tear**: the member died while writing it, before it was acknowledged.
//! `docs/decisions/0034` has the reasons.

use std::{
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use tenure_replica::{LogIndex, canary};

use super::{
    DiskError,
    batch::{BATCH_ALIGNMENT, BATCH_HEADER_BYTES, BatchHeader},
    history::History,
    record::{Record, records},
    segment::{SEGMENT_HEADER_BYTES, check_header},
    storage::{Storage, StorageFile, StorageReader},
};

/// No log gets here by counting; and from here on there is room to count.
const BATCHES_MAX: u64 = 1 << 62;
/// What a disk writes as a whole or not at all. Larger sectors are multiples of it.
const SECTOR_BYTES: usize = 512;
const READ_BYTES: usize = 256 << 10;
static ZEROS: [u8; READ_BYTES] = [0; READ_BYTES];

/// Everything that was read, and where to go on.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) history: History,
    /// All segments, oldest first; the last is the running one.
    pub(crate) segments: Vec<KnownSegment>,
    /// The running segment, open for writing unless only reading was asked for.
    pub(crate) file: Box<dyn StorageFile>,
    /// Where its next batch goes.
    pub(crate) offset: u64,
    /// Its size.
    pub(crate) capacity: u64,
    /// The newest batch.
    pub(crate) number: u64,
    /// The checksum that the next header repeats.
    pub(crate) chain: u32,
    /// Where in the running segment the batches start that no later header vouches for.
    pub(crate) unproven_from: u64,
    /// Bytes after `offset` that are not zero.
    pub(crate) torn_bytes: u64,
}

/// A segment and what it holds.
#[derive(Clone, Debug)]
pub(crate) struct KnownSegment {
    pub(crate) sequence: u64,
    pub(crate) path: PathBuf,
    /// The highest index of any entry or snapshot mark in it.
    pub(crate) last_index: LogIndex,
}

/// What may be done with the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading only.
    Read,
    /// The running segment is written to afterwards.
    ReadAndWrite,
}

/// Where a record is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) file: &'a Path,
    pub(crate) offset: u64,
    pub(crate) batch: u64,
}

/// Reads all segments.
pub(crate) fn replay(
    storage: &dyn Storage,
    listed: Vec<(u64, PathBuf)>,
    directory: u64,
) -> Result<Replay, DiskError> {
    replay_with(storage, listed, directory, Access::ReadAndWrite, &mut |_, _| {})
}

/// The same; `see` is shown every record that is sound, also if what follows it is not.
pub(crate) fn replay_with(
    storage: &dyn Storage,
    listed: Vec<(u64, PathBuf)>,
    directory: u64,
    access: Access,
    see: &mut dyn FnMut(Place<'_>, &Record),
) -> Result<Replay, DiskError> {
    let mut reading = Reading {
        storage,
        access,
        see,
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
    file: Box<dyn StorageFile>,
    offset: u64,
    capacity: u64,
}

struct Reading<'a> {
    storage: &'a dyn Storage,
    access: Access,
    see: &'a mut dyn FnMut(Place<'_>, &Record),
    mark: u32,
    history: History,
    newest: Option<BatchHeader>,
    /// Number and offset of the batches in this segment that no later header called flushed.
    unproven: Vec<(u64, u64)>,
}

impl Reading<'_> {
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
        let file = match self.access {
            Access::Read => self.storage.open_read(&path),
            Access::ReadAndWrite => self.storage.open(&path),
        };
        let file = file.map_err(DiskError::io("open segment", &path))?;
        let capacity = file.length().map_err(failed)?;
        let buffer_bytes = READ_BYTES.min(capacity as usize);
        let mut input = BufReader::with_capacity(buffer_bytes, StorageReader::new(&file, 0));
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
            let place = Place {
                file: &segment.path,
                offset: offset + (BATCH_HEADER_BYTES + at) as u64,
                batch: header.number,
            };
            (self.see)(place, &record);
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
    if was_written(&rest, end.offset, mark) && !canary!(DamagedTailCut) {
        let what = format!(
            "batch {expected} is damaged; every sector of it was written, so no crash has cut it short"
        );
        return Err(DiskError::corrupt(path, end.offset, what));
    }
    Ok(torn)
}

/// Whether every sector of the batch that begins here, at this offset of its file, was written.
///
/// A sector is written as a whole or not at all, and held zeros before. If the header cannot be read, nothing but the
/// header is looked at: its length is unknown.
fn was_written(batch: &[u8], offset: u64, mark: u32) -> bool {
    let header = BatchHeader::parse(batch, mark);
    let (length, padded) =
        header.map_or((0, 0), |header| (header.length as usize, header.padded()));
    if batch.len() < BATCH_HEADER_BYTES + padded {
        // It goes on after the file's end.
        return false;
    }
    let batch = &batch[..BATCH_HEADER_BYTES + length];
    let in_first = SECTOR_BYTES - (offset % SECTOR_BYTES as u64) as usize;
    let (first, rest) = batch.split_at(in_first.min(batch.len()));
    let holds_something = |part: &[u8]| part.iter().any(|byte| *byte != 0);
    holds_something(first) && rest.chunks(SECTOR_BYTES).all(holds_something)
}

/// What follows the good part, empty if that is only zeros, and its length up to the last byte
/// that is not zero. Memory is taken only if there is something.
fn nonzero_rest(path: &Path, end: &End) -> Result<(Vec<u8>, u64), DiskError> {
    let failed = |cause| DiskError::io("read segment", path)(cause);
    let mut input = StorageReader::new(&end.file, end.offset);
    let mut piece = vec![0; READ_BYTES.min((end.capacity - end.offset) as usize)];
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
    StorageReader::new(&end.file, end.offset).read_to_end(&mut rest).map_err(failed)?;
    let last = rest.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    Ok((rest, last as u64))
}
