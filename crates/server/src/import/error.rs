//! Why a file was not imported, worded for the operator.

use std::path::PathBuf;

use crate::{config::Problem, disk::DiskError, etcd_db::DatabaseError};

/// Why there is no new data directory. Nothing was left behind.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The settings of the new member break rules.
    #[error(
        "the settings cannot work:\n{}",
        .0.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n")
    )]
    Settings(Vec<Problem>),
    /// The file cannot be read, or is not what etcd saved.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A backup of tenure has more in it than an import takes over.
    #[error(
        "{} was saved from a tenure server: `tenure snapshot restore` makes a data directory of it, with its elections and \
         tokens", file.display()
    )]
    OurBackup {
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
