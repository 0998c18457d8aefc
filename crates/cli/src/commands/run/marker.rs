//! A file that exists while the command may run.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::files;

/// What it says.
#[derive(Debug, Serialize)]
pub(super) struct Marker<'a> {
    pub(super) name: &'a str,
    pub(super) identity: &'a str,
    pub(super) token: i64,
    pub(super) session: String,
    /// The supervisor.
    pub(super) pid: u32,
}

impl Marker<'_> {
    /// Writes it all at once: a reader sees all or nothing. The guardian removes it when the
    /// command is gone, so that it does not outlive a supervisor that was killed.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string(self)?;
        text.push('\n');
        files::replace(path, text.as_bytes())
    }
}

impl Marker<'static> {
    /// Removes the one that says this token.
    pub(super) fn remove(path: &Path, token: i64) {
        let text = fs::read_to_string(path).unwrap_or_default();
        let said: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        if said["token"] == token {
            let _ = fs::remove_file(path);
        }
    }
}
