//! A directory that goes when its owner goes, whatever ends the owner.
//!
//! A process that is killed with -9 cannot tidy up, so the next one does. A directory is left behind if it carries our
//! file and that file is not locked: the kernel lets go of a lock when its process is gone, and knows better than a
//! process id, which may be another's by now or belong to a container that we cannot look into.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "tenure-up-";
/// Names its owner: the process id, for people.
const OWNER_FILE: &str = "owner";

/// The directory, and the lock that says that it is in use.
#[derive(Debug)]
pub(super) struct TempHome {
    dir: TempDir,
    _lock: File,
}

impl TempHome {
    /// Removes what others left behind, and opens a new one.
    pub(super) fn open() -> io::Result<TempHome> {
        TempHome::open_in(&std::env::temp_dir())
    }

    fn open_in(parent: &Path) -> io::Result<TempHome> {
        // What cannot be removed now is no reason not to begin.
        let _ = sweep(parent);
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        // It gets its name when it is locked: without, no process sweeps it away.
        let unnamed = dir.path().join("owner.new");
        let mut lock = File::create_new(&unnamed)?;
        writeln!(lock, "{}", std::process::id())?;
        lock.lock()?;
        fs::rename(unnamed, dir.path().join(OWNER_FILE))?;
        Ok(TempHome { dir, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn sweep(parent: &Path) -> io::Result<()> {
    let our_user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent)?.flatten() {
        let named_so = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // This does not follow links.
        let ours = entry.metadata().is_ok_and(|is| is.is_dir() && is.uid() == our_user);
        if named_so && ours && is_left_behind(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

fn is_left_behind(dir: &Path) -> bool {
    let path = dir.join(OWNER_FILE);
    let is_file = fs::symlink_metadata(&path).is_ok_and(|is| is.is_file());
    let Some(file) = is_file.then(|| File::open(&path).ok()).flatten() else { return false };
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temp_dir_removes_only_what_no_process_owns() {
        let parent = tempfile::tempdir().unwrap();
        let lives = TempHome::open_in(parent.path()).unwrap();
        let left = parent.path().join("tenure-up-left");
        let strange = parent.path().join("tenure-up-strange");
        let other = parent.path().join("other");
        for dir in [&left, &strange, &other] {
            fs::create_dir_all(dir.join("n1")).unwrap();
        }
        for dir in [&left, &other] {
            fs::write(dir.join(OWNER_FILE), "1").unwrap();
        }
        let new = TempHome::open_in(parent.path()).unwrap();
        assert!(!left.exists(), "nobody holds its lock");
        assert!(lives.path().exists() && new.path().exists(), "these are in use");
        assert!(strange.exists() && other.exists(), "these are not ours");
    }
}
