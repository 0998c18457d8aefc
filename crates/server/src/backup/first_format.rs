//! Backups of the first format, and snapshots as they lie in a member's own directory.
//!
//! A snapshot as in [`disk::snapshot`](crate::disk::snapshot), in a backup followed by a note of whose it is and zeros up to a
//! multiple of 512 bytes.

use std::path::Path;

use tenure_replica::SnapshotReader;

use super::{BackupError, HASH_BYTES, Note, SECTOR_BYTES, file::Content, note::NOTE_BYTES};
use crate::disk::SnapshotFileReader;

/// What may follow a snapshot: a note, padding, and a checksum that is not looked at.
const REST_BYTES_MAX: usize = NOTE_BYTES + SECTOR_BYTES as usize + HASH_BYTES;

/// Reads a file up to `end`. `progress` hears how many bytes were read.
pub(super) fn read(
    path: &Path,
    end: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Content, BackupError> {
    let mut reader = SnapshotFileReader::open_followed(path, end).map_err(BackupError::of_file)?;
    let mut chunks_read = SnapshotReader::new();
    let content = |cause| BackupError::Content { file: path.to_owned(), cause };
    while let Some(chunk) = reader.next_chunk().map_err(BackupError::of_file)? {
        chunks_read.chunk(&chunk).map_err(content)?;
        progress(reader.offset());
    }
    let state = chunks_read.finish().map_err(content)?;
    let (mark, checksum) = (reader.mark().clone(), reader.checksum());
    let rest = reader.rest(REST_BYTES_MAX).map_err(BackupError::of_file)?;
    Ok(Content { mark, state, note: Note::from_bytes(&rest), checksum })
}
