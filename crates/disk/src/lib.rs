//! What a member remembers: a log that is flushed before anything follows from it, and snapshots.
//!
//! A data directory belongs to one process at a time. Inside it lie
//!
//! ```text
//! lock        held for as long as the member runs
//! boot        the directory's own number and how often it was opened
//! identity    which member of which cluster this is, once it is known
//! founders    the members that the cluster began with, if this one was among them
//! refounded   whose data the cluster began with, if it was another's
//! forced      that was done by --force-new-cluster, and the flag is still given
//! wal/        the log, in segments
//! snap/       snapshots of the state, the newest two
//! ```
//!
//! The log is written in batches. A batch is one write and one flush, and the next batch is written
//! only after that flush has returned. Each batch also says which batch was the newest *known to be
//! flushed* when it was written. That is what lets recovery tell an unlucky crash from a bad disk: a
//! damaged batch that a later one calls flushed is corruption, and the member refuses to start; so is one of
//! which every sector was written. A batch that lacks a sector, and that no later one calls flushed, was still being
//! written when the member died. It is cut off: nothing can have followed from it.
//!
//! Reading order: `batch` (the frame), `record` (what is in it), `segment` (the files),
//! `replay` and `history` (reading them back), `wal` (appending), `writer` (the thread),
//! `snapshot`, and `directory`, which puts them together; `fresh` makes a directory of a state, `inspect` reads one and changes nothing. `docs/reference/formats.md` has every byte.
//!
//! Everything goes through [`Storage`], so that the lab can run all of it on a disk of its own.
//!
//! This crate never retries a failed flush: after one, what is on the disk is unknown.

mod batch;
mod breather;
mod bulk;
mod directory;
pub mod durable;
mod error;
#[cfg(debug_assertions)]
pub mod faulty;
mod founders;
mod fresh;
mod history;
pub mod inspect;
mod label;
mod log;
mod pages;
mod record;
mod removal;
mod replay;
mod segment;
pub mod snapshot;
mod storage;
mod supply;
#[cfg(test)]
mod tests;
mod wal;
mod writer;

pub use breather::Breather;
pub use breather::REST_MAX;
pub use bulk::BulkFile;
pub use directory::{DataDir, DiskConfig, RecoveredLog, Torn};
pub use error::DiskError;
pub use fresh::Fresh;
pub use label::{Identity, NewCluster};
pub use log::Log;
pub use record::Record;
pub use snapshot::{SavedSnapshot, SnapshotFileReader, SnapshotWriter};
pub use storage::{Files, Storage, StorageFile, StorageLock, StorageReader};
pub use writer::{Writer, WriterEvent};

/// A point at which a test can have the process killed; see `faulty`. Nothing in a release build.
#[inline]
pub fn kill_point(_name: &str) {
    #[cfg(debug_assertions)]
    faulty::kill_point(_name);
}
