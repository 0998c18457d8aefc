//! Snapshot files: the state of the store at one entry of the log.
//!
//! A file is a header with the mark, chunks in the order they were handed in, and a footer that
//! counts them. Every checksum goes on from the one before it, so that chunks can be neither
//! damaged nor swapped nor left out unnoticed. What the chunks mean is the replica's business.
//!
//! Writing and reading need nothing but a path. A member that lags behind, and a client that backs up, are sent the
//! same bytes as a file would have, but straight from memory.

mod folder;
mod reader;
mod received;
mod writer;

use std::path::PathBuf;

use tenure_replica::SnapshotMark;

pub use folder::{newest_snapshot, prune_snapshots, snapshot_path};
pub use reader::{LoadError, SnapshotFileReader, load, load_in, read_state};
pub use received::ReceivedSnapshot;
pub use writer::{Cutter, Frame, SnapshotWriter};

/// The longest chunk; a chunk is held in memory as a whole.
pub const CHUNK_BYTES_MAX: usize = 64 << 20;
/// The longest mark that is read: some 100,000 members.
const MARK_BYTES_MAX: usize = 1 << 20;
const MAGIC: &[u8; 8] = b"tenuresn";
const VERSION: u32 = 1;
/// Stands where a chunk's length would, and says that the footer follows.
const FOOTER: u32 = u32::MAX;

/// A snapshot on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSnapshot {
    /// Where in the log it stands.
    pub mark: SnapshotMark,
    /// Its file.
    pub path: PathBuf,
}

/// A checksum that goes on from an earlier one.
fn chained(before: u32, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}
