//! Files that are there completely or not at all, even if the power fails.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::DiskError;

/// What a file that is not finished ends with.
pub(crate) const UNFINISHED: &str = "tmp";

/// The name a file has until it is finished.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(UNFINISHED);
    name.into()
}

/// Creates a directory for this user only; one that exists is left as it is.
pub(crate) fn create_directory(path: &Path) -> Result<(), DiskError> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(DiskError::io("create directory", path))?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

/// Opens a new file for reading and writing, in place of any older one.
pub(crate) fn create_file(path: &Path) -> Result<File, DiskError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(DiskError::io("create", path))
}

/// Makes names created, renamed or removed in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), DiskError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(DiskError::io("flush directory", path))
}

/// Gives a finished and flushed file its name.
pub(crate) fn rename_durably(from: &Path, to: &Path) -> Result<(), DiskError> {
    fs::rename(from, to).map_err(DiskError::io("rename into place", to))?;
    sync_directory(to.parent().expect("a file in a data directory has a parent"))
}

/// Replaces a small file as a whole.
pub(super) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let beside = unfinished(path);
    let mut file = create_file(&beside)?;
    file.write_all(bytes).map_err(DiskError::io("write", &beside))?;
    file.sync_all().map_err(DiskError::io("flush", &beside))?;
    rename_durably(&beside, path)
}

/// Removes what a crash left unfinished in a directory.
pub(super) fn remove_unfinished(directory: &Path) -> Result<(), DiskError> {
    for path in files_in(directory)? {
        if path.extension().is_some_and(|extension| extension == UNFINISHED) {
            match fs::remove_file(&path) {
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
pub(super) fn files_in(directory: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let mut files = Vec::new();
    let failed = "list directory";
    for file in fs::read_dir(directory).map_err(DiskError::io(failed, directory))? {
        files.push(file.map_err(DiskError::io(failed, directory))?.path());
    }
    files.sort();
    Ok(files)
}
