//! From a snapshot's chunks to the state that they hold.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use tenure_replica::{SnapshotMark, SnapshotReader, State, codec::DecodeError};

use super::SnapshotFileReader;
use crate::{DiskError, Storage};

/// Reads a snapshot file into a state.
pub fn load(path: &Path) -> Result<(SnapshotMark, State), LoadError> {
    let mut reader = SnapshotFileReader::open(path)?;
    let state = read_state(&mut reader)?;
    Ok((reader.mark().clone(), state))
}

/// Reads a snapshot file of a storage into a state.
pub fn load_in(storage: &dyn Storage, path: &Path) -> Result<(SnapshotMark, State), LoadError> {
    let mut reader = SnapshotFileReader::open_in(storage, path)?;
    let state = read_state(&mut reader)?;
    Ok((reader.mark().clone(), state))
}

/// Makes a state from everything that is left to read.
pub fn read_state<R: Read>(reader: &mut SnapshotFileReader<R>) -> Result<State, LoadError> {
    let mut chunks_read = SnapshotReader::new();
    while let Some(chunk) = reader.next_chunk()? {
        chunks_read.chunk(&chunk).map_err(|cause| LoadError::content(reader.path(), cause))?;
    }
    chunks_read.finish().map_err(|cause| LoadError::content(reader.path(), cause))
}

/// Why a snapshot could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is not what was written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The file is whole, but its content makes no sense to this version.
    #[error(
        "snapshot {} is whole, but this release cannot read it: {cause}; nothing was changed. Start \
         the release that wrote it, which may be older or newer (`tenure version`)", path.display()
    )]
    Content {
        /// Which file.
        path: PathBuf,
        /// What was wrong.
        cause: DecodeError,
    },
}

impl LoadError {
    fn content(path: &Path, cause: DecodeError) -> LoadError {
        LoadError::Content { path: path.to_owned(), cause }
    }
}
