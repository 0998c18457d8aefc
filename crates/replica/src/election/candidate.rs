//! One candidate in an election.

use std::sync::Arc;

use bytes::Bytes;
pub use tenure_api::Mode;
use tenure_api::{LeaseId, Revision};

/// A key that is a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The key.
    pub key: Bytes,
    /// The revision that created it: its candidate in the order, and the fencing token once it holds.
    pub created: Revision,
    /// The lease it dies with.
    pub lease: Option<LeaseId>,
    /// When it came, by the raft leader's clock; for people.
    pub since_ms: u64,
    /// What a session said of it. None for stock clients.
    pub spec: Option<Arc<JoinSpec>>,
    /// The slot it holds, if it holds.
    pub slot: Option<u32>,
    /// Whether its owner was told that it holds.
    pub told: bool,
    /// It does not want to lead now.
    pub unhealthy: bool,
}

/// What a session says of its candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinSpec {
    /// Whose it is.
    pub session: LeaseId,
    /// How many candidates may hold at once.
    pub mode: Mode,
    /// Higher priority is elected first.
    pub priority: u32,
    /// Takes over even from a leader of lower priority.
    pub preempts: bool,
    /// To be told only when the previous holder has surely stopped.
    pub no_overlap: bool,
    /// For people and programs that list candidates.
    pub metadata: Vec<(String, String)>,
    /// All names that were joined together, this one included. Nothing is told before all are held.
    pub together: Vec<Bytes>,
}

impl Candidate {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.slot.is_some()
    }

    /// How many candidates may hold at once. A stock client is always exclusive.
    pub fn mode(&self) -> Mode {
        self.spec.as_ref().map_or(Mode::Exclusive, |spec| spec.mode)
    }

    /// Whether it must stay where it is: its client decides by itself, or it must have the same
    /// order in several elections (or two that wait for each other would wait for ever).
    pub fn is_fixed(&self) -> bool {
        self.spec.as_ref().is_none_or(|spec| spec.together.len() > 1)
    }

    /// The session it belongs to.
    pub fn session(&self) -> Option<LeaseId> {
        self.spec.as_ref().map(|spec| spec.session)
    }

    /// Its priority; a stock client has none.
    pub fn priority(&self) -> u32 {
        self.spec.as_ref().map_or(0, |spec| spec.priority)
    }

    /// Whether it takes over from a leader of lower priority.
    pub fn preempts(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.preempts)
    }

    /// Whether it would lead if it were its turn.
    pub fn wants_to_lead(&self) -> bool {
        !self.unhealthy
    }
}
