//! From a snapshot's chunks to the state that they hold.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use tenure_replica::{SnapshotMark, State, Thaw, codec::DecodeError};

use super::SnapshotReader;
use crate::disk::DiskError;

/// Reads a snapshot file into a state.
pub(crate) fn load(path: &Path) -> Result<(SnapshotMark, State), LoadError> {
    let mut reader = SnapshotReader::open(path)?;
    let state = thaw(&mut reader)?;
    Ok((reader.mark().clone(), state))
}

/// Makes a state from everything that is left to read.
pub(crate) fn thaw<R: Read>(reader: &mut SnapshotReader<R>) -> Result<State, LoadError> {
    let mut thaw = Thaw::new();
    while let Some(chunk) = reader.next_chunk()? {
        thaw.chunk(&chunk).map_err(|cause| LoadError::content(reader.path(), cause))?;
    }
    thaw.finish().map_err(|cause| LoadError::content(reader.path(), cause))
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
