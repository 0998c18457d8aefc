//! A data directory for a member that begins with a state.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf, absolute},
};

use tenure_replica::Frozen;

use super::ImportError;
use crate::disk::{DataDir, DiskError, Identity, Refounded, SnapshotWriter, durable};

/// Makes `path` the data directory of a member that has come to `frozen`. It is built beside its place
/// and renamed when everything in it is durable: it is there as a whole or not at all.
pub(super) fn write_data_dir(
    path: &Path,
    identity: Identity,
    refounded: Refounded,
    frozen: &Frozen,
) -> Result<(), ImportError> {
    refuse_occupied(path)?;
    // Whole and without a slash at its end, so that it has a parent and a name.
    let path = &absolute(path).map_err(DiskError::io("find", path))?;
    let path: &Path = &path.components().collect::<PathBuf>();
    if let Some(parent) = path.parent() {
        durable::create_directory(parent)?;
    }
    let beside = beside(path);
    match DirBuilder::new().mode(0o700).create(&beside) {
        Ok(()) => {}
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
            return Err(ImportError::LeftOver(beside));
        }
        Err(cause) => return Err(DiskError::io("create directory", &beside)(cause).into()),
    }
    let written = fill(&beside, identity, refounded, frozen)
        .and_then(|()| durable::rename_durably(&beside, path));
    if written.is_err() {
        // It is ours, and the error that led here is what matters.
        let _ = fs::remove_dir_all(&beside);
    }
    Ok(written?)
}

/// Refuses a directory with anything in it.
pub(super) fn refuse_occupied(path: &Path) -> Result<(), ImportError> {
    match fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(ImportError::NotEmpty(path.to_owned())),
        },
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(DiskError::io("list directory", path)(cause).into()),
    }
}

fn fill(
    folder: &Path,
    identity: Identity,
    refounded: Refounded,
    frozen: &Frozen,
) -> Result<(), DiskError> {
    let (mut dir, _) = DataDir::open(folder, None)?;
    let mut snapshot = SnapshotWriter::create(&dir.snapshots(), frozen.mark.clone())?;
    for chunk in frozen.chunks() {
        snapshot.chunk(&chunk)?;
    }
    snapshot.finish()?;
    dir.mark_refounded(refounded)?;
    dir.claim(identity)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".importing");
    name.into()
}
