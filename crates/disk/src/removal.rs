//! Removing large files a little at a time.
//!
//! A filesystem that is mounted with `discard` tells the disk of every block it gives back. For a snapshot of 150 MB
//! that took 30 ms, in which no flush of the log returned; in steps of a few MB with rests between them it goes
//! unnoticed (`docs/decisions/0030`).

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::{durable::unfinished, storage::Storage};

/// What is given back at once.
const STEP_BYTES: u64 = 4 << 20;
/// How long the disk is free for other work after a step.
const REST: Duration = Duration::from_millis(20);

/// Takes a file's name away, so that it is not taken for a whole one while it gets shorter. If the process ends before it is
/// gone, the next start removes it. Answers where it is now.
pub(crate) fn retire(storage: &dyn Storage, path: &Path) -> io::Result<PathBuf> {
    let retired = unfinished(path);
    storage.rename(path, &retired)?;
    Ok(retired)
}

/// Removes retired files on a thread of its own.
pub(crate) fn remove_beside(retired: Vec<PathBuf>) {
    if retired.is_empty() {
        return;
    }
    let work = move || {
        for path in retired {
            match remove(&path, || thread::sleep(REST)) {
                // Or it was removed already.
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(file = %path.display(), %cause, "cannot be removed; the next start tries again");
                }
                _ => {}
            }
        }
    };
    if let Err(cause) = thread::Builder::new().name("remove".into()).spawn(work) {
        tracing::warn!(%cause, "no thread to remove old files; the next start does it");
    }
}

fn remove(path: &Path, mut rest: impl FnMut()) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let mut bytes = file.metadata()?.len();
    while bytes > STEP_BYTES {
        bytes -= STEP_BYTES;
        file.set_len(bytes)?;
        rest();
    }
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;

    #[test]
    fn a_large_file_goes_step_by_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        fs::write(&path, vec![1; 3 * STEP_BYTES as usize + 7]).unwrap();
        let retired = retire(&Files, &path).unwrap();
        assert!(!path.exists(), "it has lost its name before anything of it is gone");
        let mut left = Vec::new();
        remove(&retired, || left.push(fs::metadata(&retired).unwrap().len())).unwrap();
        assert_eq!(left, [2 * STEP_BYTES + 7, STEP_BYTES + 7, 7]);
        assert!(!retired.exists());
    }

    #[test]
    fn one_that_is_gone_is_no_trouble() {
        let folder = tempfile::tempdir().unwrap();
        let gone = remove(&folder.path().join("gone"), || {});
        assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(
            retire(&Files, &folder.path().join("gone")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
