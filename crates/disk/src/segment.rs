//! The files of the log: a header, batches, and zeros up to the end.
//!
//! A segment is filled with zeros and flushed before it is used, so that a batch later changes
//! bytes but neither the file's size nor its blocks, and `fdatasync` has no metadata to write.
//! The header is durable before the file gets its name: a bad header is never a tear. Neither is a
//! file shorter than its header says: it was cut, and there is no telling how much was in there.

use std::{
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use super::{
    DiskError,
    durable::{create_file, files_in, unfinished},
    pages::fill,
    storage::{Storage, StorageFile},
};

/// Bytes of a segment's header; the first batch follows.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 64;
/// What a segment file's name ends with.
const SUFFIX: &str = "wal";
const MAGIC: &[u8; 8] = b"tenurewl";
const VERSION: u32 = 1;
/// Where the segment of this number lies.
pub(crate) fn segment_path(folder: &Path, sequence: u64) -> PathBuf {
    folder.join(format!("{sequence:016x}.{SUFFIX}"))
}

/// The segments of a folder, oldest first; a missing one in between is an error.
pub(crate) fn list_segments(
    storage: &dyn Storage,
    folder: &Path,
) -> Result<Vec<(u64, PathBuf)>, DiskError> {
    let mut segments: Vec<(u64, PathBuf)> = Vec::new();
    for path in files_in(storage, folder)? {
        if path.extension().is_none_or(|extension| extension != SUFFIX) {
            continue;
        }
        let sequence = path
            .file_stem()
            .and_then(|stem| u64::from_str_radix(stem.to_str()?, 16).ok())
            .filter(|sequence| segment_path(folder, *sequence) == path)
            .ok_or_else(|| DiskError::corrupt(&path, 0, "its name is not that of a segment"))?;
        if let Some((before, _)) = segments.last()
            && *before + 1 != sequence
        {
            return Err(DiskError::Missing {
                file: segment_path(folder, before + 1),
                why: format!("the log continues in {}", path.display()),
            });
        }
        segments.push((sequence, path));
    }
    Ok(segments)
}

/// Makes a segment, complete with header and flushed, under its unfinished name.
///
/// Answers `None` if `stop` was raised meanwhile.
pub(crate) fn prepare_segment(
    storage: &dyn Storage,
    folder: &Path,
    directory: u64,
    sequence: u64,
    bytes: u64,
    stop: &AtomicBool,
) -> Result<Option<Box<dyn StorageFile>>, DiskError> {
    let path = unfinished(&segment_path(folder, sequence));
    let file = create_file(storage, &path)?;
    if !fill(storage, &*file, &path, bytes, stop)? {
        return Ok(None);
    }
    file.write_all_to(&header(directory, sequence, bytes), 0)
        .map_err(DiskError::io("write segment header", &path))?;
    file.sync_everything().map_err(DiskError::io("flush segment", &path))?;
    Ok(Some(file))
}

fn header(directory: u64, sequence: u64, bytes: u64) -> [u8; SEGMENT_HEADER_BYTES as usize] {
    let mut header = [0; SEGMENT_HEADER_BYTES as usize];
    header[0..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&sequence.to_le_bytes());
    header[24..32].copy_from_slice(&directory.to_le_bytes());
    header[32..40].copy_from_slice(&bytes.to_le_bytes());
    let crc = crc32fast::hash(&header[..60]);
    header[60..64].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Checks that a file is the segment it is named as, of this directory. Answers how long it was
/// made; 0 if it was made before segments said so.
pub(crate) fn check_header(
    path: &Path,
    found: &[u8],
    directory: u64,
    sequence: u64,
) -> Result<u64, DiskError> {
    let word = |at: usize| u32::from_le_bytes(found[at..at + 4].try_into().expect("four bytes"));
    let number = |at: usize| u64::from_le_bytes(found[at..at + 8].try_into().expect("eight bytes"));
    if found.len() != SEGMENT_HEADER_BYTES as usize {
        return Err(DiskError::corrupt(path, 0, "it is shorter than a segment's header"));
    }
    if found[..8] != MAGIC[..] || word(60) != crc32fast::hash(&found[..60]) {
        return Err(DiskError::corrupt(path, 0, "the segment's header is damaged"));
    }
    if word(8) != VERSION {
        return Err(DiskError::UnknownVersion {
            file: path.to_owned(),
            found: word(8),
            known: VERSION,
        });
    }
    if number(24) != directory {
        return Err(DiskError::Foreign { file: path.to_owned() });
    }
    if number(16) != sequence {
        return Err(DiskError::corrupt(path, 16, format!("it is really segment {}", number(16))));
    }
    Ok(number(32))
}
