//! `--status-file`: the answer of `/leader` for programs that would rather read a file.
//!
//! A file outlives what it says, and the process that wrote it. So it carries `valid_until_unix_ms`, is
//! replaced as a whole (a temporary file in the same directory, then a rename) well before that moment, and
//! is removed when there is nothing to say, at the end, and at the start, when it can only be a
//! former life's.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::time::sleep;

use super::belief::Belief;
use super::status_cache::StatusCache;
use super::words;
use crate::files;

/// How often it is written, as a part of the lease.
const WRITES_PER_TTL: u32 = 6;
const WRITE_INTERVAL_MAX: Duration = Duration::from_secs(2);

/// A status file.
#[derive(Debug)]
pub(super) struct StatusFile {
    path: PathBuf,
    status: Arc<StatusCache>,
}

impl StatusFile {
    /// Removes what a former life left, and finds out whether it can be written.
    pub(super) fn new(path: PathBuf, status: Arc<StatusCache>) -> anyhow::Result<StatusFile> {
        let file = StatusFile { path, status };
        let cannot = || format!("cannot write --status-file {}", file.path.display());
        files::replace(&file.path, b"").with_context(cannot)?;
        file.remove().with_context(cannot)?;
        Ok(file)
    }

    /// Keeps it up to date, for ever.
    pub(super) async fn run(&self) -> std::convert::Infallible {
        let interval = (self.status.ttl / WRITES_PER_TTL).min(WRITE_INTERVAL_MAX);
        let mut news = self.status.listen();
        let mut failing = false;
        loop {
            // Seen before it is read: what changes meanwhile is written in the next round.
            news.mark_unchanged();
            match self.renew() {
                Ok(()) => failing = false,
                Err(cause) => {
                    if !std::mem::replace(&mut failing, true) {
                        eprintln!("cannot write {}: {cause}; trying again", self.path.display());
                    }
                    // Better none than one that runs out.
                    let _ = self.remove();
                }
            }
            tokio::select! {
                _ = news.changed() => {}
                () = sleep(interval) => {}
            }
        }
    }

    fn renew(&self) -> io::Result<()> {
        let (judged_unix_ms, sure) = match self.status.dated_belief() {
            (at, Belief::Sure(sure)) => (at, sure),
            (_, Belief::Unsure(_)) => return self.remove(),
        };
        let mut status = words::leader(&self.status, &sure, judged_unix_ms);
        let valid_until = judged_unix_ms.saturating_add(sure.expires_in.as_millis() as u64);
        status["valid_until_unix_ms"] = valid_until.into();
        // Not flushed: after a crash of the machine it is out of date, whatever it says.
        files::replace(&self.path, format!("{status}\n").as_bytes())
    }

    /// Removes it, if it is there.
    pub(super) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
            _ => Ok(()),
        }
    }
}
