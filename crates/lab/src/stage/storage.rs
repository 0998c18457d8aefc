//! What leaders write to.

use super::NodeId;

/// What the storage is called in stories and scripts.
pub const STORAGE: &str = "storage";

/// Whom the storage lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Everybody.
    Open,
    /// Whoever has a token that is not lower than the highest seen.
    Tokens,
}

/// A write on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) writer: NodeId,
    pub(super) tenure: u64,
    pub(super) token: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Storage {
    pub(super) gate: Gate,
    highest: Option<u64>,
}

impl Storage {
    pub(super) fn new(gate: Gate) -> Storage {
        Storage { gate, highest: None }
    }

    /// Whether a write is taken.
    pub(super) fn admits(&mut self, write: Write) -> bool {
        if self.gate == Gate::Open {
            return true;
        }
        // None is less than any token.
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
