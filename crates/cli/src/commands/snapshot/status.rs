//! Check a saved file and show what it holds.

use std::path::Path;

use tenure_server::backup::{Backup, HashCheck};

use crate::args::Settings;
use crate::commands::progress::Progress;
use crate::exit::Exit;
use crate::output::Output;

pub(super) fn run(file: &Path, skip_hash_check: bool, settings: &Settings) -> anyhow::Result<Exit> {
    let backup = open(file, skip_hash_check)?;
    let mut output = Output::stdout(settings);
    output.snapshot_status(&backup.summary())?;
    output.flush()?;
    Ok(Exit::Done)
}

/// Reads a file to its end, with a line about it.
pub(super) fn open(file: &Path, skip_hash_check: bool) -> anyhow::Result<Backup> {
    let check = if skip_hash_check { HashCheck::Skipped } else { HashCheck::Required };
    let mut progress = Progress::new("reading");
    Ok(Backup::open(file, check, &mut |done, total| progress.at(done, Some(total)))?)
}
