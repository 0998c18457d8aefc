//! Files that are there completely or not at all, even if the power fails.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    DiskError,
    storage::{Storage, StorageFile},
};

/// What a file that is not finished ends with.
pub const UNFINISHED: &str = "tmp";

/// The name a file has until it is finished.
pub fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(UNFINISHED);
    name.into()
}

/// Creates a directory for this user only; one that exists is left as it is.
pub(crate) fn create_directory(storage: &dyn Storage, path: &Path) -> Result<(), DiskError> {
    if storage.is_directory(path) {
        return Ok(());
    }
    storage.create_directory(path).map_err(DiskError::io("create directory", path))?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(storage, parent),
        _ => sync_directory(storage, Path::new(".")),
    }
}

/// Opens a new file for reading and writing, in place of any older one.
pub(crate) fn create_file(
    storage: &dyn Storage,
    path: &Path,
) -> Result<Box<dyn StorageFile>, DiskError> {
    storage.create(path).map_err(DiskError::io("create", path))
}

/// Makes names created, renamed or removed in a directory durable.
pub(crate) fn sync_directory(storage: &dyn Storage, path: &Path) -> Result<(), DiskError> {
    storage.sync_directory(path).map_err(DiskError::io("flush directory", path))
}

/// Gives a finished and flushed file its name.
pub fn rename_durably(storage: &dyn Storage, from: &Path, to: &Path) -> Result<(), DiskError> {
    storage.rename(from, to).map_err(DiskError::io("rename into place", to))?;
    sync_directory(storage, to.parent().expect("a file in a data directory has a parent"))
}

/// Replaces a small file as a whole.
pub(crate) fn write_durably(
    storage: &dyn Storage,
    path: &Path,
    bytes: &[u8],
) -> Result<(), DiskError> {
    let beside = unfinished(path);
    let file = create_file(storage, &beside)?;
    file.write_all_to(bytes, 0).map_err(DiskError::io("write", &beside))?;
    file.sync_everything().map_err(DiskError::io("flush", &beside))?;
    rename_durably(storage, &beside, path)
}

/// Removes what a crash left unfinished in a directory.
pub(crate) fn remove_unfinished(storage: &dyn Storage, directory: &Path) -> Result<(), DiskError> {
    for path in files_in(storage, directory)? {
        if path.extension().is_some_and(|extension| extension == UNFINISHED) {
            match storage.remove(&path) {
                // A member of the same process that has just stopped may still be at it.
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                    return Err(DiskError::io("remove", &path)(cause));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Every file of a directory, in the order of their names.
pub(crate) fn files_in(storage: &dyn Storage, directory: &Path) -> Result<Vec<PathBuf>, DiskError> {
    storage.list(directory).map_err(DiskError::io("list directory", directory))
}
