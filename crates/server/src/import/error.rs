//! Why a file was not imported, worded for the operator.

use std::{io, path::PathBuf};

use crate::{config::Problem, disk::DiskError};

/// Why there is no new data directory. Nothing was left behind.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The settings of the new member break rules.
    #[error(
        "the settings cannot work:\n{}",
        .0.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n")
    )]
    Settings(Vec<Problem>),
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
    /// Going on would open to all clients what was protected.
    #[error(
        "{} has authentication enabled, and users and roles are not imported yet: in the new cluster \
         anybody could read and write every key. If that is what you want, say --without-auth",
        file.display()
    )]
    AuthEnabled {
        /// Which file.
        file: PathBuf,
    },
    /// Revisions would grow too large.
    #[error(
        "the snapshot's revision {last} and a jump of {jump} do not fit below 2^53: clients could not tell \
         one revision from the next; choose a smaller --bump-revision"
    )]
    RevisionsEnd {
        /// The snapshot's revision.
        last: i64,
        /// How far it was to jump.
        jump: i64,
    },
    /// The new directory could not be written, or something is there already.
    #[error(transparent)]
    Disk(#[from] DiskError),
}
