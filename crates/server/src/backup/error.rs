//! Why a backup is of no use, or a directory cannot be made of it.

use std::{
    io,
    path::{Path, PathBuf},
};

use tenure_replica::codec::DecodeError;

use crate::{config::Problem, disk::DiskError};

/// What stands in the way. Whatever it is, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The operating system refused.
    #[error("cannot {action} {}: {cause}", file.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        file: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// It was never a backup of this program.
    #[error("{} is not a snapshot of tenure: {what}", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// What it looks like.
        what: &'static str,
    },
    /// Its length is wrong.
    #[error(
        "{} is cut off, or has no checksum: {bytes} bytes are not a multiple of 512 and 32 more; take the \
         backup again, or copy it again. A file from a member's own snap directory has no \
         checksum: --skip-hash-check reads it", file.display()
    )]
    CutOff {
        /// The file.
        file: PathBuf,
        /// How long it is.
        bytes: u64,
    },
    /// Its content is not what was saved.
    #[error(
        "{} was changed since it was saved: its SHA-256 is {found}, it should be {expected}; use \
         another copy", file.display()
    )]
    Changed {
        /// The file.
        file: PathBuf,
        /// What is at its end.
        expected: String,
        /// What its content gives.
        found: String,
    },
    /// The checksums inside do not agree.
    #[error("{} is damaged at offset {offset}: {what}; use another copy", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where.
        offset: u64,
        /// What was found.
        what: String,
    },
    /// It is whole and makes no sense to this release.
    #[error("{} cannot be read: {cause}; was it saved by a newer release?", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What was wrong.
        cause: DecodeError,
    },
    /// Saved by a cluster of newer members.
    #[error(
        "{} comes from a cluster of version {found}, this release knows up to {known}; use a newer \
         release", file.display()
    )]
    TooNew {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// Its own part is in a form that this release does not know.
    #[error("{} is of format {found}, this release knows format 1; use a newer release", file.display())]
    NewerFormat {
        /// The file.
        file: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Revisions would grow too large.
    #[error(
        "the backup's revision {last} and a jump of {jump} do not fit below 2^53: clients could not tell \
         one revision from the next; choose a smaller --bump-revision"
    )]
    RevisionsEnd {
        /// The backup's revision.
        last: i64,
        /// How far it was to jump.
        jump: i64,
    },
    /// The new cluster makes no sense.
    #[error("the settings cannot work:\n{}", list(.0))]
    Settings(Vec<Problem>),
    /// A survivor without a past.
    #[error(
        "--force-new-cluster makes a cluster of what one member of a lost one has, but {} holds no \
         member's data; give the survivor's --data-dir", dir.display()
    )]
    NothingSurvived {
        /// The directory.
        dir: PathBuf,
    },
    /// A survivor whose beginnings are not known.
    #[error(
        "{} was made with other settings; start it with the --initial-cluster and \
         --initial-cluster-token it was made with", dir.display()
    )]
    UnknownPast {
        /// The directory.
        dir: PathBuf,
    },
    /// A survivor whose log cannot be applied.
    #[error("the log in {} cannot be applied: {what}; restore from a backup", dir.display())]
    Unreadable {
        /// The directory.
        dir: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The new directory could not be written.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n")
}

impl BackupError {
    /// For `map_err`: what was tried, and on which file.
    pub(super) fn io(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> BackupError {
        move |cause| BackupError::Io { action, file: file.to_owned(), cause }
    }

    /// What the reader of snapshots says about a member's disk, said about a backup.
    pub(super) fn of_file(error: DiskError) -> BackupError {
        match error {
            DiskError::Corrupt { file, offset, what } => {
                BackupError::Damaged { file, offset, what }
            }
            DiskError::Io { action, file, cause } => BackupError::Io { action, file, cause },
            other => BackupError::Disk(other),
        }
    }
}
