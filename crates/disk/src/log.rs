//! The log without its thread, for a host that has none.

use tenure_replica::{LogIndex, Persist};

use super::{DiskError, storage::StorageLock, wal::Wal};

/// The log, to be written and flushed step by step. What [`Writer`](super::Writer) does in one go on a thread of its own, a
/// simulation does in steps between which the power may fail.
///
/// After an error nothing more may be asked of it but to be dropped.
#[derive(Debug)]
pub struct Log {
    wal: Wal,
    _locks: Vec<StorageLock>,
}

impl Log {
    pub(crate) fn new(wal: Wal, locks: Vec<StorageLock>) -> Log {
        Log { wal, _locks: locks }
    }

    /// Writes everything as one batch. Answers whether it counts only after a [`flush`](Self::flush).
    pub fn write(&mut self, persists: &[Persist]) -> Result<bool, DiskError> {
        self.wal.write(persists).map(|(_, must_flush)| must_flush)
    }

    /// Makes durable what was written.
    pub fn flush(&mut self) -> Result<(), DiskError> {
        self.wal.flush().map(drop)
    }

    /// Allows to delete the log up to `index`. A snapshot that covers it must be durable.
    pub fn release(&mut self, index: LogIndex) -> Result<(), DiskError> {
        self.wal.release(index)
    }

    /// Does what a thread beside the log does: has the next segment ready, deletes those that were released.
    pub fn upkeep(&mut self) -> Result<(), DiskError> {
        self.wal.order_next()?;
        self.wal.work();
        Ok(())
    }

    /// Writes and flushes an empty batch, as a clean stop does: it vouches for the one before it.
    pub fn seal(&mut self) -> Result<(), DiskError> {
        self.wal.seal()
    }
}
