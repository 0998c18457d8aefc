//! The files of the audit log: one that is written, and those before it as FILE.1 (the newest) to FILE.4.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use tracing::warn;

use super::AuditTarget;

/// Why there is no audit log. A member without the one that was asked for does not start.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file.
    #[error("--audit-log {}: {cause}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why it cannot be written.
        cause: io::Error,
    },
    /// The thread that writes it.
    #[error("no thread for the audit log: {0}")]
    Thread(io::Error),
}

/// What lines are written to.
#[derive(Debug)]
pub(super) enum LogFile {
    Stderr,
    File { path: PathBuf, out: File, bytes: u64, bytes_max: u64, kept: usize, failed: bool },
}

impl LogFile {
    pub(super) fn open(target: &AuditTarget, kept: usize) -> Result<LogFile, AuditError> {
        match target {
            AuditTarget::Stderr => Ok(LogFile::Stderr),
            AuditTarget::File(path, bytes_max) => {
                let at = |cause| AuditError::File { file: path.clone(), cause };
                let out = open(path).map_err(at)?;
                let bytes = out.metadata().map_err(at)?.len();
                let (path, bytes_max) = (path.clone(), *bytes_max);
                Ok(LogFile::File { path, out, bytes, bytes_max, kept, failed: false })
            }
        }
    }

    /// Writes whole lines. A disk that takes no more is said once: the member goes on.
    pub(super) fn write(&mut self, lines: &[u8]) {
        match self {
            LogFile::Stderr => {
                let _ = io::stderr().write_all(lines);
            }
            LogFile::File { path, out, bytes, bytes_max, kept, failed } => {
                let written = (|| {
                    if *bytes > 0 && *bytes + lines.len() as u64 > *bytes_max {
                        rotate(path, *kept)?;
                        *out = open(path)?;
                        *bytes = 0;
                    }
                    out.write_all(lines)
                })();
                match written {
                    Ok(()) => {
                        *bytes += lines.len() as u64;
                        *failed = false;
                    }
                    Err(cause) => {
                        if !std::mem::replace(failed, true) {
                            warn!(file = %path.display(), %cause, "the audit log cannot be written");
                        }
                    }
                }
            }
        }
    }
}

/// Others have no business in it.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn rotate(path: &Path, kept: usize) -> io::Result<()> {
    let numbered = |number: usize| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    for number in (1..kept).rev() {
        match fs::rename(numbered(number), numbered(number + 1)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
    }
    fs::rename(path, numbered(1))
}
