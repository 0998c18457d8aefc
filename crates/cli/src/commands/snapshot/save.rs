//! Save what a member holds to a file.
//!
//! The file gets its name when everything is in it, flushed and checked; until then it is called
//! FILE.part. Whatever goes wrong, a file that was there before stays.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tenure_server::backup::{Backup, BackupError, HashCheck};
use tokio::signal::ctrl_c;

use crate::args::Settings;
use crate::commands::progress::Progress;
use crate::exit::Exit;
use crate::output::Output;

/// How nice a backup is to everybody else.
const NICENESS: i32 = 10;

/// Flushed this often: a member's log on the same disk must not wait behind the whole file.
const FLUSH_BYTES: usize = 4 << 20;

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
    let mut progress = Progress::new("checking");
    let summary = match Backup::open(&part.path, HashCheck::Required, &mut |done, total| {
        progress.at(done, Some(total));
    }) {
        Ok(backup) => Some(backup.summary()),
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
    let mut writer = BufWriter::new(&part.file);
    let mut progress = Progress::new("saving");
    let (mut bytes, mut last_bytes, mut unflushed) = (0, 0, 0);
    loop {
        let piece = match stream.message().await {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(status) => bail!("the member broke off after {bytes} bytes: {}", status.message()),
        };
        writer
            .write_all(&piece.blob)
            .with_context(|| format!("cannot write {}", part.path.display()))?;
        bytes += piece.blob.len() as u64;
        last_bytes = piece.blob.len();
        unflushed += piece.blob.len();
        if unflushed >= FLUSH_BYTES {
            unflushed = 0;
            let flushed = writer.flush().and_then(|()| part.file.sync_data());
            flushed.with_context(|| format!("cannot write {}", part.path.display()))?;
        }
        progress.at(bytes, Some(bytes + piece.remaining_bytes));
    }
    writer.flush().with_context(|| format!("cannot write {}", part.path.display()))?;
    if last_bytes == 0 || bytes % 512 != 32 {
        bail!("the member stopped in the middle: {bytes} bytes came, and no checksum");
    }
    Ok(())
}

/// A file that is not finished. Dropping it removes it.
struct Part {
    file: File,
    path: PathBuf,
    place: PathBuf,
}

impl Part {
    fn create(place: &Path) -> anyhow::Result<Part> {
        if place.is_dir() {
            bail!("{} is a directory; give the name of a file", place.display());
        }
        let mut name = place.as_os_str().to_owned();
        name.push(".part");
        let path = PathBuf::from(name);
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = file.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Part { file, path, place: place.to_owned() })
    }

    fn finish(self) -> anyhow::Result<()> {
        let failed = || format!("cannot finish {}", self.place.display());
        self.file.sync_all().with_context(failed)?;
        fs::rename(&self.path, &self.place).with_context(failed)?;
        let folder = match self.place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(failed)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After `finish` there is none.
        let _ = fs::remove_file(&self.path);
    }
}
