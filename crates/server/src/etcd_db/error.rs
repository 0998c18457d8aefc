//! Why a database file could not be read, worded for the operator.

use std::{io, path::PathBuf};

/// What is wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", file.display())]
    Read {
        /// Which file.
        file: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// It is something else.
    #[error("{} is no etcd snapshot: {what}", file.display())]
    NotEtcd {
        /// Which file.
        file: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// There is no checksum at its end.
    #[error(
        "{} has no checksum at its end: it is a copy of etcd's own file, or was cut off; save it with \
         `etcdctl snapshot save`, or, if it was copied while etcd was stopped, take it as it is with \
         --skip-hash-check", file.display()
    )]
    NoChecksum {
        /// Which file.
        file: PathBuf,
    },
    /// The checksum at its end is another.
    #[error(
        "{} is damaged: the checksum of its {bytes} bytes is not the one at offset {bytes}{}; save it \
         again with `etcdctl snapshot save`", file.display(),
        place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default()
    )]
    Checksum {
        /// Which file.
        file: PathBuf,
        /// What the checksum covers.
        bytes: u64,
        /// The first thing in it that cannot be, if anything stands out.
        place: Option<String>,
    },
    /// Something in it cannot be.
    #[error(
        "{} is damaged at offset {offset}: {what}; save it again with `etcdctl snapshot save`",
        file.display()
    )]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// Where.
        offset: u64,
        /// What is there.
        what: String,
    },
}
