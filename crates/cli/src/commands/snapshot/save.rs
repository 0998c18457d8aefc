//! Save what a member holds to a file.
//!
//! The file gets its name when everything is in it, flushed and checked; until then it is called
//! FILE.part, which is locked. Whatever goes wrong, a file that was there before stays.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tenure_server::backup::{Backup, BackupError, HashCheck};
use tenure_server::disk::{Breather, BulkFile};
use tokio::signal::ctrl_c;

use crate::args::Settings;
use crate::commands::progress::Progress;
use crate::exit::Exit;
use crate::output::Output;

/// The niceness of a backup, so that it does not slow other processes.
const NICENESS: i32 = 10;

pub(super) async fn run(file: &Path, settings: Settings) -> anyhow::Result<Exit> {
    if settings.endpoints.len() > 1 {
        // Two members may be at different places: one file cannot come from both.
        return Err(crate::exit::usage(
            "a snapshot is saved from one member: give one address in --endpoints",
        ));
    }
    // It is often run on a member's own machine, and is in less of a hurry than the member. If the
    // system does not allow it, it only gets in the way a little more.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    let part = Part::create(file)?;
    tokio::select! {
        saved = receive(&part, &settings) => saved?,
        _ = ctrl_c() => return Ok(Exit::Interrupted),
    }
    let (mut progress, mut breather) = (Progress::new("checking"), Breather::new());
    let summary = match Backup::open(&part.path, HashCheck::Required, &mut |done, total| {
        progress.at(done, Some(total));
        breather.rest();
    }) {
        Ok(backup) => {
            let summary = backup.summary();
            // To free a million keys one by one takes a core for a while, and this process is at its end.
            std::mem::forget(backup);
            Some(summary)
        }
        // A stock etcd was asked. Its file has the right checksum, and its own tools restore it.
        Err(BackupError::Foreign { .. }) => None,
        Err(error) => return Err(error).context("what the member sent is of no use"),
    };
    drop(progress);
    part.finish()?;
    let mut output = Output::stdout(&settings);
    match summary {
        Some(summary) => output.snapshot_saved(file, &summary)?,
        None => eprintln!("saved {}: a database of etcd; restore it with etcdutl", file.display()),
    }
    output.flush()?;
    Ok(Exit::Done)
}

async fn receive(part: &Part, settings: &Settings) -> anyhow::Result<()> {
    let client = settings.client();
    let mut stream = client.maintenance().snapshot().await?;
    let failed = || format!("cannot write {}", part.path.display());
    // A member's log on the same disk does not wait behind it.
    let mut bulk = BulkFile::new(part.file.try_clone().with_context(failed)?, &part.path);
    let mut progress = Progress::new("saving");
    let (mut bytes, mut last_bytes) = (0, 0);
    loop {
        let piece = match stream.message().await {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(status) => bail!("the member broke off after {bytes} bytes: {}", status.message()),
        };
        bulk.put(&piece.blob).with_context(failed)?;
        bytes += piece.blob.len() as u64;
        last_bytes = piece.blob.len();
        progress.at(bytes, Some(bytes + piece.remaining_bytes));
    }
    bulk.finish().with_context(failed)?;
    if last_bytes == 0 || bytes % 512 != 32 {
        bail!("the member stopped in the middle: {bytes} bytes came, and no checksum");
    }
    Ok(())
}

/// An unfinished file that no other process writes to. Dropping it removes it.
struct Part {
    file: File,
    path: PathBuf,
    place: PathBuf,
    finished: bool,
}

impl Part {
    fn create(place: &Path) -> anyhow::Result<Part> {
        if place.is_dir() {
            bail!("{} is a directory; give the name of a file", place.display());
        }
        let mut name = place.as_os_str().to_owned();
        name.push(".part");
        let path = PathBuf::from(name);
        let failed = || format!("cannot create {}", path.display());
        loop {
            // Not emptied before it is ours: two that write to one file make one that is worth nothing.
            let mut options = OpenOptions::new();
            let open = options.write(true).create(true).truncate(false).mode(0o600);
            let file = open.open(&path).with_context(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    bail!("somebody else is saving to {}", place.display());
                }
                Err(TryLockError::Error(cause)) => return Err(cause).with_context(failed),
            }
            // The process that had the lock may have finished since it was opened; then this is its good file.
            if is_at(&file, &path).with_context(failed)? {
                file.set_len(0).with_context(failed)?;
                return Ok(Part { file, path, place: place.to_owned(), finished: false });
            }
        }
    }

    fn finish(mut self) -> anyhow::Result<()> {
        let failed = || format!("cannot finish {}", self.place.display());
        self.file.sync_all().with_context(failed)?;
        fs::rename(&self.path, &self.place).with_context(failed)?;
        let folder = match self.place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(failed)?;
        self.finished = true;
        Ok(())
    }
}

/// Whether this open file is the one that has this name now.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let here = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((here.dev(), here.ino()) == (there.dev(), there.ino())),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(cause),
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.finished {
            // Under the lock: it cannot be another process's file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn content(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|cause| cause.kind().to_string())
    }

    #[test]
    fn snapshot_save_refuses_a_file_that_is_being_saved() {
        let home = tempfile::TempDir::new().unwrap();
        let place = home.path().join("backup.db");
        let first = Part::create(&place).unwrap();
        (&first.file).write_all(b"first").unwrap();
        let refused = Part::create(&place).err().expect("it is taken").to_string();
        assert!(refused.contains("somebody else is saving to"), "{refused}");
        assert_eq!(content(&first.path), "first", "the second has not touched it");
        first.finish().unwrap();
        assert_eq!(content(&place), "first");
    }

    #[test]
    fn snapshot_save_leaves_a_finished_file_alone() {
        let home = tempfile::TempDir::new().unwrap();
        let place = home.path().join("backup.db");
        let part = Part::create(&place).unwrap();
        (&part.file).write_all(b"first").unwrap();
        let (path, first) = (part.path.clone(), part.file.try_clone().unwrap());
        assert!(is_at(&first, &path).unwrap());
        part.finish().unwrap();
        assert!(!is_at(&first, &path).unwrap(), "it has another name");
        // One that comes later is not removed by the end of one that came before, and leaves the good one.
        drop(first);
        let second = Part::create(&place).unwrap();
        (&second.file).write_all(b"half").unwrap();
        assert_eq!(content(&place), "first");
        drop(second);
        assert!(!path.exists());
        assert_eq!(content(&place), "first");
    }

    /// As one that was killed leaves it.
    #[test]
    fn snapshot_save_overwrites_what_was_left_behind() {
        let home = tempfile::TempDir::new().unwrap();
        let place = home.path().join("backup.db");
        fs::write(home.path().join("backup.db.part"), "long and of no use").unwrap();
        let part = Part::create(&place).unwrap();
        (&part.file).write_all(b"new").unwrap();
        part.finish().unwrap();
        assert_eq!(content(&place), "new");
    }
}
