//! Reading a data directory for people and tests, without changing it.
//!
//! Nothing here writes, creates or locks. A directory that a member uses can be read, too: the end of its log is then
//! wherever the member was at that moment, and may look torn.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use tenure_api::Member;
use tenure_replica::SnapshotMark;

use super::{
    DiskError, Files, Identity, Torn,
    batch::{BATCH_HEADER_BYTES, BatchHeader},
    directory::{founders_file, identity_file, snapshot_folder},
    founders::read_founders,
    history::History,
    label::Boot,
    record::{Record, records},
    replay::{Access, Place, replay_with},
    segment::{SEGMENT_HEADER_BYTES, check_header, list_segments},
    snapshot::newest_snapshot,
};

/// Where the kernel lists all locks on files.
const LOCKS: &str = "/proc/locks";

/// Everything that a log says, in the order in which it was written.
#[derive(Debug)]
pub struct LogDump {
    /// Which member's it is, once that is known.
    pub identity: Option<Identity>,
    /// How often the directory was opened.
    pub boots: u64,
    /// A process uses the directory now.
    pub in_use: bool,
    /// The newest snapshot; the log goes on after it.
    pub snapshot: Option<SnapshotMark>,
    /// Why the newest snapshot cannot be read.
    pub snapshot_damage: Option<DiskError>,
    /// The records that could be read.
    pub records: Vec<FoundRecord>,
    /// A batch at the end that was not written to its end. The next start cuts it off.
    pub torn: Option<Torn>,
    /// What is wrong with the log. The member refuses to start on it, and nothing after it was read.
    pub damage: Option<DiskError>,
}

/// A record of the log and where it is.
#[derive(Clone, Debug)]
pub struct FoundRecord {
    /// In this segment file,
    pub file: PathBuf,
    /// from this byte on,
    pub offset: u64,
    /// in the batch of this number.
    pub batch: u64,
    /// What it says.
    pub record: Record,
    /// An entry that a later record replaced.
    pub replaced: bool,
}

/// Reads the log of a data directory. The log lies in `wal/` inside it unless another place is given.
///
/// Damage is part of the answer; an error means that there is no log to read.
pub fn inspect(path: &Path, wal_dir: Option<&Path>) -> Result<LogDump, DiskError> {
    let wal_folder = wal_dir.map_or_else(|| path.join("wal"), Path::to_owned);
    let boot = read_boot(path)?;
    let segments = list_segments(&Files, &wal_folder)?;
    if segments.is_empty() {
        return Err(DiskError::Missing { file: wal_folder, why: "there is no log segment".into() });
    }
    let (snapshot, snapshot_damage) = match newest_snapshot(&Files, &snapshot_folder(path)) {
        Ok(saved) => (saved.map(|saved| saved.mark), None),
        Err(DiskError::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => (None, None),
        Err(damage) => (None, Some(damage)),
    };
    let mut found = Vec::new();
    let mut see = |place: Place<'_>, record: &Record| {
        found.push(FoundRecord {
            file: place.file.to_owned(),
            offset: place.offset,
            batch: place.batch,
            record: record.clone(),
            replaced: false,
        });
    };
    let last = segments.last().map(|(_, path)| path.clone()).unwrap_or_default();
    let read = replay_with(&Files, segments, boot.directory, Access::Read, &mut see);
    let (torn, damage) = match read {
        Ok(log) if log.torn_bytes > 0 => {
            (Some(Torn { file: last, offset: log.offset, bytes: log.torn_bytes }), None)
        }
        Ok(log) => (None, contradiction(log.history, path, snapshot.as_ref())),
        Err(damage) => (None, Some(damage)),
    };
    mark_replaced(&mut found);
    Ok(LogDump {
        identity: Identity::read(&Files, &identity_file(path))?,
        boots: boot.count,
        in_use: in_use(path),
        snapshot,
        snapshot_damage,
        records: found,
        torn,
        damage,
    })
}

/// The members that the cluster began with, if this directory is that of one of them.
pub fn founders(path: &Path) -> Result<Option<Vec<Member>>, DiskError> {
    read_founders(&Files, &founders_file(path))
}

/// Whether a process holds the directory. Asks the kernel instead of trying to take the lock: a member that starts at
/// that moment must get it.
pub fn in_use(path: &Path) -> bool {
    let Ok(file) = fs::metadata(path.join("lock")) else { return false };
    let Ok(locks) = fs::read_to_string(LOCKS) else { return false };
    let inode = format!(":{}", file.ino());
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // `1: FLOCK ADVISORY WRITE 712 fe:00:131 0 EOF`; one that waits has an arrow before its kind.
        words.get(1) == Some(&"FLOCK") && words.get(5).is_some_and(|word| word.ends_with(&inode))
    })
}

fn read_boot(path: &Path) -> Result<Boot, DiskError> {
    let file = path.join("boot");
    Boot::read(&Files, &file)?.ok_or_else(|| DiskError::Missing {
        file,
        why: "this is not the data directory of a member".into(),
    })
}

fn contradiction(
    history: History,
    path: &Path,
    snapshot: Option<&SnapshotMark>,
) -> Option<DiskError> {
    let what = history.fit(snapshot).err()?;
    Some(DiskError::Inconsistent { directory: path.to_owned(), what })
}

/// An entry replaces those of its index and above; a snapshot that was installed replaces all.
fn mark_replaced(found: &mut [FoundRecord]) {
    let mut lowest = u64::MAX;
    for one in found.iter_mut().rev() {
        match &one.record {
            Record::Entry(entry) => {
                one.replaced = entry.index >= lowest;
                lowest = lowest.min(entry.index);
            }
            Record::Snapshot(_) => lowest = 0,
            Record::Start { .. } | Record::HardState(_) => {}
        }
    }
}

/// Reads a log while its member writes it. Segments that were deleted before they were read leave a gap, which
/// [`poll`](Self::poll) answers.
#[derive(Debug)]
pub struct LogFollower {
    folder: PathBuf,
    directory: u64,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    sequence: u64,
    path: PathBuf,
    file: File,
    offset: u64,
    capacity: u64,
}

impl LogFollower {
    /// Follows the log in this data directory, which has been opened by its member before.
    pub fn open(path: &Path) -> Result<LogFollower, DiskError> {
        let directory = read_boot(path)?.directory;
        Ok(LogFollower { folder: path.join("wal"), directory, running: None })
    }

    /// Hands over all records that were written since the last call. Answers false if some are missing before them.
    pub fn poll(&mut self, see: &mut dyn FnMut(Record)) -> Result<bool, DiskError> {
        let mut whole = true;
        loop {
            if let Some(running) = &mut self.running {
                running.read(self.directory, see)?;
            }
            // What was written to a segment before the next one had its name is read by now.
            let segments = list_segments(&Files, &self.folder)?;
            let next = match &self.running {
                None => segments.into_iter().next(),
                Some(now) => segments.into_iter().find(|(sequence, _)| *sequence > now.sequence),
            };
            let Some((sequence, path)) = next else { return Ok(whole) };
            if let Some(running) = &mut self.running {
                running.read(self.directory, see)?;
                whole &= sequence == running.sequence + 1;
            }
            match Running::open(sequence, path, self.directory) {
                Ok(running) => self.running = Some(running),
                // Deleted a moment ago.
                Err(DiskError::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => {
                    return Ok(whole);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Running {
    fn open(sequence: u64, path: PathBuf, directory: u64) -> Result<Running, DiskError> {
        let failed = |cause| DiskError::io("read segment", &path)(cause);
        let file = File::open(&path).map_err(failed)?;
        let mut header = [0; SEGMENT_HEADER_BYTES as usize];
        file.read_exact_at(&mut header, 0).map_err(failed)?;
        check_header(&path, &header, directory, sequence)?;
        let capacity = file.metadata().map_err(failed)?.len();
        Ok(Running { sequence, file, offset: SEGMENT_HEADER_BYTES, capacity, path })
    }

    fn read(&mut self, directory: u64, see: &mut dyn FnMut(Record)) -> Result<(), DiskError> {
        while let Some((header, body)) =
            self.next(directory as u32).map_err(DiskError::io("read segment", &self.path))?
        {
            for (_, record) in records(&body[..header.length as usize]) {
                let bad = |error| DiskError::corrupt(&self.path, self.offset, format!("{error}"));
                see(record.map_err(bad)?);
            }
            self.offset += (BATCH_HEADER_BYTES + header.padded()) as u64;
        }
        Ok(())
    }

    /// The next batch, if it is whole.
    fn next(&self, mark: u32) -> io::Result<Option<(BatchHeader, Vec<u8>)>> {
        let mut header = [0; BATCH_HEADER_BYTES];
        let body_at = self.offset + BATCH_HEADER_BYTES as u64;
        if body_at > self.capacity || !read_all(&self.file, &mut header, self.offset)? {
            return Ok(None);
        }
        let Some(header) = BatchHeader::parse(&header, mark) else { return Ok(None) };
        if body_at + header.padded() as u64 > self.capacity {
            return Ok(None);
        }
        let mut body = vec![0; header.padded()];
        let whole = read_all(&self.file, &mut body, body_at)?;
        Ok((whole && crc32fast::hash(&body) == header.body_crc).then_some((header, body)))
    }
}

/// False if the file ends before that: its room is being given back.
fn read_all(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, offset) {
        Err(cause) if cause.kind() == ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}
