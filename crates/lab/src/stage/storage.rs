//! The storage that leaders write to.

use super::ProcessId;

/// The name of the storage in traces and fault scripts.
pub const STORAGE: &str = "storage";

/// Which writes the storage takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageGate {
    /// All.
    Open,
    /// Those whose token is not lower than the highest seen.
    Tokens,
}

/// A write under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct StorageWrite {
    pub(super) writer: ProcessId,
    pub(super) tenure: u64,
    pub(super) token: Option<u64>,
}

#[derive(Debug)]
pub(super) struct SharedStorage {
    pub(super) gate: StorageGate,
    highest: Option<u64>,
}

impl SharedStorage {
    pub(super) fn new(gate: StorageGate) -> SharedStorage {
        SharedStorage { gate, highest: None }
    }

    /// Whether a write is taken.
    pub(super) fn admits(&mut self, write: StorageWrite) -> bool {
        if self.gate == StorageGate::Open {
            return true;
        }
        // `None` is less than any token.
        let admits = write.token.is_some() && write.token >= self.highest;
        if admits {
            self.highest = write.token;
        }
        admits
    }

    pub(super) fn highest(&self) -> Option<u64> {
        self.highest
    }
}
