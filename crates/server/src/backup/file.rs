//! Reading a backup, believing nothing.

use std::{
    fmt::Write as _,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use tenure_replica::{SnapshotMark, State, codec::DecodeError, command::COMMAND_VERSION};

use super::{BackupError, HASH_BYTES, Note, SECTOR_BYTES, first_format};
use crate::etcd_db::{
    bbolt::{Damage, Db, MAGIC, Stop},
    content,
    ours::{self, Found, Unreadable},
    sha256,
};

/// Whether a backup must end with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashCheck {
    /// It must, and it must be right.
    Required,
    /// It is not checked. The checksums inside are checked all the same.
    Skipped,
}

/// A backup that was read to its end and found sound.
#[derive(Debug)]
pub struct Backup {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// The position in the old cluster's log.
    pub mark: SnapshotMark,
    /// The state there.
    pub state: State,
    /// Whose it is, if it says so.
    pub note: Option<Note>,
    /// The SHA-256 of its content, if it was looked at.
    pub sha256: Option<String>,
    /// A checksum inside of it, however it is wrapped.
    pub(super) checksum: u32,
}

/// What is in a backup of either format.
pub(super) struct Content {
    pub(super) mark: SnapshotMark,
    pub(super) state: State,
    pub(super) note: Option<Note>,
    pub(super) checksum: u32,
}

enum Format {
    First,
    Etcds,
}

impl Backup {
    /// Reads a file. `progress` hears how many bytes were looked at, of how many.
    pub fn open(
        path: &Path,
        check: HashCheck,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Backup, BackupError> {
        let file = File::open(path).map_err(BackupError::io("open", path))?;
        let bytes = file.metadata().map_err(BackupError::io("open", path))?.len();
        let format = recognise(path, &file)?;
        let is_wrapped = bytes % SECTOR_BYTES == HASH_BYTES as u64;
        let end = if is_wrapped { bytes - HASH_BYTES as u64 } else { bytes };
        let hashed = if check == HashCheck::Required { end } else { 0 };
        let total = hashed + bytes;
        let sha256 = match check {
            HashCheck::Skipped => None,
            HashCheck::Required if end == 0 || !is_wrapped => {
                return Err(BackupError::CutOff { file: path.to_owned(), bytes });
            }
            HashCheck::Required => {
                Some(verify(path, &file, end, &mut |done| progress(done, total))?)
            }
        };
        let reading = &mut |read| progress(hashed + read, total);
        let content = match format {
            Format::First if check == HashCheck::Skipped => {
                first_format::read(path, bytes, reading)
            }
            Format::First => first_format::read(path, end, reading),
            Format::Etcds => read(path, file, end, reading),
        };
        let Content { mark, state, note, checksum } = content?;
        if state.cluster_version > COMMAND_VERSION {
            let (found, known) = (state.cluster_version, COMMAND_VERSION);
            return Err(BackupError::TooNew { file: path.to_owned(), found, known });
        }
        progress(total, total);
        Ok(Backup { path: path.to_owned(), bytes, mark, state, note, sha256, checksum })
    }
}

/// Reads a file in etcd's format up to `end`.
fn read(
    path: &Path,
    file: File,
    end: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Content, BackupError> {
    let stopped = |stop: Stop| match stop {
        Stop::Io(cause) => BackupError::Io { action: "read", file: path.to_owned(), cause },
        Stop::Damage(Damage { offset, what }) => {
            BackupError::Damaged { file: path.to_owned(), offset, what }
        }
    };
    let unreadable = |cause: DecodeError| BackupError::Content { file: path.to_owned(), cause };
    let foreign = |what| Err(BackupError::Foreign { file: path.to_owned(), what });
    let db = Db::open(file, end).map_err(stopped)?;
    let content = content::read(&db, progress).map_err(stopped)?;
    let found = ours::read(&db, &content).map_err(|error| match error {
        Unreadable::Stop(stop) => stopped(stop),
        Unreadable::Content(cause) => unreadable(cause),
    })?;
    let ours = match found {
        Found::Ours(ours) => ours,
        Found::None => {
            return foreign(
                "it is a database of etcd, saved from an etcd server; `tenure import` makes a data directory of it",
            );
        }
        Found::Stale => {
            return foreign(
                "tenure saved it once, but its keys are others now; if an etcd server wrote to it, `tenure import` makes a \
                 data directory of it, otherwise it is damaged: use another copy",
            );
        }
        Found::Newer(found) => {
            let file = path.to_owned();
            return Err(BackupError::NewerFormat { file, found });
        }
    };
    let store = content.store().map_err(|damage| stopped(damage.into()))?;
    let state = ours.reader.finish_with(store).map_err(unreadable)?;
    let note = Note::from_bytes(&ours.note);
    Ok(Content { mark: ours.mark, state, note, checksum: ours.seal })
}

/// People mix up files: say what this one looks like.
fn recognise(path: &Path, file: &File) -> Result<Format, BackupError> {
    let mut start = [0; 24];
    let bytes = file.read_at(&mut start, 0).map_err(BackupError::io("read", path))?;
    let foreign = |what| Err(BackupError::Foreign { file: path.to_owned(), what });
    match &start[..bytes] {
        [] => foreign("it is empty"),
        start if start.starts_with(b"tenuresn") => Ok(Format::First),
        start if start.starts_with(b"tenure") => {
            foreign("it is another file of a member's data directory")
        }
        // The first page of bbolt: a header of 16 bytes, then its magic number.
        start if start.get(16..20) == Some(&MAGIC.to_le_bytes()) => Ok(Format::Etcds),
        _ => foreign("it begins with something else"),
    }
}

/// Compares the content with the checksum at its end; answers it.
fn verify(
    path: &Path,
    file: &File,
    end: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<String, BackupError> {
    let sums = sha256::at_end(file, end, progress).map_err(BackupError::io("read", path))?;
    let (found, expected) = (hex(&sums.0), hex(&sums.1));
    if found == expected {
        return Ok(found);
    }
    Err(BackupError::Changed { file: path.to_owned(), expected, found })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
