//! Which snapshots there are, and which are kept.

use std::{
    io,
    path::{Path, PathBuf},
};

use tenure_replica::SnapshotMark;

use super::{SavedSnapshot, SnapshotFileReader};
use crate::{DiskError, durable::files_in, removal::retire, storage::Storage};

const SUFFIX: &str = "snap";
/// The one in use, and the one before it for manual repair.
const SNAPSHOTS_KEPT: usize = 2;

/// Where the snapshot of this mark lies. Names sort by index: that is what makes one newer.
pub fn snapshot_path(folder: &Path, mark: &SnapshotMark) -> PathBuf {
    folder.join(format!("{:016x}-{:016x}.{SUFFIX}", mark.index, mark.term.0))
}

/// Reads the newest snapshot to its end. If it is damaged that is an error, never a reason to
/// take an older one: the log between the two may be gone.
pub fn newest_snapshot(
    storage: &dyn Storage,
    folder: &Path,
) -> Result<Option<SavedSnapshot>, DiskError> {
    let Some(path) = list(storage, folder)?.pop() else { return Ok(None) };
    let mark = SnapshotFileReader::open_in(storage, &path)?.verify()?;
    if snapshot_path(folder, &mark) != path {
        return Err(DiskError::Inconsistent {
            directory: folder.to_owned(),
            what: format!("{} holds the snapshot of index {}", path.display(), mark.index),
        });
    }
    Ok(Some(SavedSnapshot { mark, path }))
}

/// Deletes all but the newest two. Their room is given back bit by bit.
pub fn prune_snapshots(storage: &dyn Storage, folder: &Path) -> Result<(), DiskError> {
    let mut snapshots = list(storage, folder)?;
    snapshots.truncate(snapshots.len().saturating_sub(SNAPSHOTS_KEPT));
    let mut retired = Vec::new();
    for path in snapshots {
        match retire(storage, &path) {
            Ok(path) => retired.push(path),
            // Two threads may prune at the same time.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(DiskError::io("remove old snapshot", &path)(cause)),
        }
    }
    storage.remove_gradually(retired);
    Ok(())
}

/// Oldest first.
fn list(storage: &dyn Storage, folder: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let mut files = files_in(storage, folder)?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == SUFFIX));
    Ok(files)
}
