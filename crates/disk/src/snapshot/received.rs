//! A snapshot that came from another member and was not judged yet.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tenure_replica::SnapshotMark;

use super::{prune_snapshots, snapshot_path};
use crate::{DiskError, durable::rename_durably, storage::Storage};

/// A file that is whole and durable, under a name that no start takes for a snapshot. Whoever can send one must not replace
/// what a member has: it becomes the newest snapshot, and old ones go, only when raft has taken it over. Dropping it
/// removes the file.
#[derive(Debug)]
pub struct ReceivedSnapshot {
    file: PathBuf,
    mark: SnapshotMark,
    kept: bool,
}

impl ReceivedSnapshot {
    /// A file that is whole and durable.
    pub fn new(file: PathBuf, mark: SnapshotMark) -> ReceivedSnapshot {
        ReceivedSnapshot { file, mark, kept: false }
    }

    /// Of which point in the log it is.
    pub fn mark(&self) -> &SnapshotMark {
        &self.mark
    }

    /// Raft has taken it over: from now on it is this member's newest.
    pub(crate) fn install(mut self, storage: &dyn Storage) -> Result<(), DiskError> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        rename_durably(storage, &self.file, &snapshot_path(folder, &self.mark))?;
        self.kept = true;
        prune_snapshots(storage, folder)
    }
}

impl Drop for ReceivedSnapshot {
    fn drop(&mut self) {
        if !self.kept {
            // If this fails, the next start removes it.
            let _ = fs::remove_file(&self.file);
        }
    }
}
