//! Reading a backup, believing nothing.

use std::{
    fmt::Write as _,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use tenure_replica::{SnapshotMark, SnapshotReader, State, command::COMMAND_VERSION};

use super::{BackupError, HASH_BYTES, Note, PAGE_BYTES, note::NOTE_BYTES};
use crate::disk::SnapshotFileReader;

const BUFFER_BYTES: usize = 256 << 10;
/// What may follow a snapshot: a note, padding, and a checksum that is not looked at.
const REST_BYTES_MAX: usize = NOTE_BYTES + PAGE_BYTES as usize + HASH_BYTES;

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
    /// The checksum of the snapshot in it, however that is wrapped.
    pub(super) checksum: u32,
}

impl Backup {
    /// Reads a file. `progress` hears how many bytes were looked at, of how many.
    pub fn open(
        path: &Path,
        check: HashCheck,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Backup, BackupError> {
        let mut file = File::open(path).map_err(BackupError::io("open", path))?;
        let bytes = file.metadata().map_err(BackupError::io("open", path))?.len();
        recognise(path, &mut file)?;
        let (sha256, end, total) = match check {
            HashCheck::Skipped => (None, bytes, bytes),
            HashCheck::Required => {
                let end = bytes.saturating_sub(HASH_BYTES as u64);
                if end == 0 || !end.is_multiple_of(PAGE_BYTES) {
                    return Err(BackupError::CutOff { file: path.to_owned(), bytes });
                }
                let hash = verify(path, end, &mut |done| progress(done, end + bytes))?;
                (Some(hash), end, end + bytes)
            }
        };
        let mut reader =
            SnapshotFileReader::open_followed(path, end).map_err(BackupError::of_file)?;
        let mut chunks_read = SnapshotReader::new();
        let content = |cause| BackupError::Content { file: path.to_owned(), cause };
        while let Some(chunk) = reader.next_chunk().map_err(BackupError::of_file)? {
            chunks_read.chunk(&chunk).map_err(content)?;
            progress(total - bytes + reader.offset(), total);
        }
        let state = chunks_read.finish().map_err(content)?;
        if state.cluster_version > COMMAND_VERSION {
            let (found, known) = (state.cluster_version, COMMAND_VERSION);
            return Err(BackupError::TooNew { file: path.to_owned(), found, known });
        }
        let (mark, checksum) = (reader.mark().clone(), reader.checksum());
        let rest = reader.rest(REST_BYTES_MAX).map_err(BackupError::of_file)?;
        progress(total, total);
        let note = Note::from_bytes(&rest);
        Ok(Backup { path: path.to_owned(), bytes, mark, state, note, sha256, checksum })
    }
}

/// People mix up files: say what this one looks like.
fn recognise(path: &Path, file: &mut File) -> Result<(), BackupError> {
    let mut start = Vec::new();
    file.take(24).read_to_end(&mut start).map_err(BackupError::io("read", path))?;
    let foreign = |what| Err(BackupError::Foreign { file: path.to_owned(), what });
    // The first page of bbolt: a header of 16 bytes, then its magic number.
    const BBOLT: [u8; 4] = 0xED0C_DAED_u32.to_le_bytes();
    match &start[..] {
        [] => foreign("it is empty"),
        start if start.starts_with(b"tenuresn") => Ok(()),
        start if start.starts_with(b"tenure") => {
            foreign("it is another file of a member's data directory")
        }
        start if start.get(16..20) == Some(&BBOLT) => {
            foreign("it is a database of etcd, saved from an etcd server")
        }
        _ => foreign("it begins with something else"),
    }
}

/// Compares the content with the checksum at its end; answers it.
fn verify(path: &Path, end: u64, progress: &mut dyn FnMut(u64)) -> Result<String, BackupError> {
    let failed = || BackupError::io("read", path);
    let mut file = File::open(path).map_err(failed())?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut done = 0;
    while done < end {
        let wanted = (end - done).min(BUFFER_BYTES as u64) as usize;
        file.read_exact(&mut buffer[..wanted]).map_err(failed())?;
        hash.update(&buffer[..wanted]);
        done += wanted as u64;
        progress(done);
    }
    let mut expected = [0; HASH_BYTES];
    file.read_exact(&mut expected).map_err(failed())?;
    let (found, expected) = (hex(&hash.finalize()), hex(&expected));
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
