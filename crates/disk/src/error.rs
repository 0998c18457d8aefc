//! Disk errors, worded for the operator that has to repair them.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Why the data directory cannot be used, or can no longer be used.
///
/// All of them are fatal to this member: none is retried.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// Another process holds the lock.
    #[error(
        "{} is locked: another process uses this data directory; stop that process, or give this \
         member a directory of its own", file.display()
    )]
    InUse {
        /// The lock file.
        file: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {action} {}: {cause}; {}", file.display(), advice(cause))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        file: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Bytes that were once flushed are not what was written.
    #[error(
        "{} is corrupt at offset {offset}: {what}; nothing was changed. Check the disk, then \
         restore this member from a backup, or remove it from the cluster and add it again with \
         an empty data directory", file.display()
    )]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where the damage starts.
        offset: u64,
        /// What was found.
        what: String,
    },
    /// Written by a newer release.
    #[error(
        "{} has format version {found}, this release reads up to {known}; start a newer release \
         on this directory", file.display()
    )]
    UnknownVersion {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version we can read.
        known: u32,
    },
    /// A file that must be there is not.
    #[error(
        "{} is missing: {why}; put it back, or remove this member from the cluster and add it \
         again with an empty data directory", file.display()
    )]
    Missing {
        /// What is missing.
        file: PathBuf,
        /// How we know.
        why: String,
    },
    /// The log and the data directory do not belong together.
    #[error(
        "{} was written for another data directory; check the path of the log directory",
        file.display()
    )]
    Foreign {
        /// The file that is out of place.
        file: PathBuf,
    },
    /// Each file is sound, but together they make no sense.
    #[error(
        "{} does not fit together: {what}; restore this member from a backup, or remove it from \
         the cluster and add it again with an empty data directory", directory.display()
    )]
    Inconsistent {
        /// The directory.
        directory: PathBuf,
        /// What contradicts what.
        what: String,
    },
    /// The directory already belongs to a member.
    #[error("{} already belongs to another member; use an empty data directory", file.display())]
    Claimed {
        /// The identity file.
        file: PathBuf,
    },
    /// A directory that has files, and none of them a member's.
    #[error(
        "{} is not empty and not the data directory of a member: it has {found}; nothing was written. Give a \
         directory that is empty or does not exist yet{}", directory.display(), hint(found)
    )]
    NotOurs {
        /// The directory.
        directory: PathBuf,
        /// Some of what is in it.
        found: String,
    },
    /// There is something where a new directory is to be.
    #[error(
        "{} is not empty, and nothing is written over it: give a directory that does not exist, or move this \
         one away", dir.display()
    )]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// A new directory that cannot be put in its place.
    #[error(
        "{} cannot be replaced ({cause}): if a volume is mounted there, use a directory inside it",
        dir.display()
    )]
    InPlace {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// More than one frame can hold.
    #[error("{bytes} bytes are too many for one write to {} (limit {max})", file.display())]
    TooLarge {
        /// Where it was to go.
        file: PathBuf,
        /// How much it was.
        bytes: usize,
        /// How much it may be.
        max: usize,
    },
}

/// What to do with the data of etcd.
fn hint(found: &str) -> &'static str {
    match found {
        "member" => {
            "; if this is etcd's, make one from a snapshot of etcd: tenure import --from FILE"
        }
        _ => "",
    }
}

impl DiskError {
    /// For `map_err`: what was tried, and on which file.
    pub fn io(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> DiskError {
        move |cause| DiskError::Io { action, file: file.to_owned(), cause }
    }

    pub(crate) fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> DiskError {
        DiskError::Corrupt { file: file.to_owned(), offset, what: what.into() }
    }
}

fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => "check the owner and the mode of the data directory",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space on this volume and start the member again"
        }
        io::ErrorKind::ReadOnlyFilesystem => "mount the volume writable",
        io::ErrorKind::NotADirectory => "choose a path that is a directory",
        io::ErrorKind::NotFound => {
            "check that the path exists and that no other program removes files there"
        }
        _ => "check the disk and the kernel's log before starting the member again",
    }
}
