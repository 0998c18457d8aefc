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
//! damaged batch that a later one calls flushed is corruption, and the member refuses to start;
//! a damaged batch that nobody vouches for was still being written, so nobody was told about it, and it is
//! cut off.
//!
//! Reading order: `batch` (the frame), `record` (what is in it), `segment` (the files),
//! `replay` and `history` (reading them back), `wal` (appending), `writer` (the thread),
//! `snapshot`, and `directory`, which puts them together; `fresh` makes a directory of a state. `docs/FORMATS.md` has every byte.
//!
//! This module never retries a failed flush: after one, nobody knows what is on the disk.

mod batch;
mod breather;
mod bulk;
mod directory;
pub(crate) mod durable;
mod error;
mod founders;
mod fresh;
mod history;
mod label;
mod pages;
mod record;
mod removal;
mod replay;
mod segment;
pub mod snapshot;
mod supply;
#[cfg(test)]
mod tests;
mod wal;
mod writer;

pub use breather::Breather;
pub(crate) use breather::REST_MAX;
pub use bulk::BulkFile;
pub use directory::{DataDir, DiskConfig, Recovered, Torn};
pub use error::DiskError;
pub(crate) use fresh::Fresh;
pub use label::{Identity, Refounded};
pub use snapshot::{SavedSnapshot, SnapshotReader, SnapshotWriter};
pub use writer::{Writer, WriterEvent};
