//! One place in a line.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{LeaseId, Revision};

/// A key that stands in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The key.
    pub key: Bytes,
    /// The revision that created it: its place in the order, and the fencing token once it holds.
    pub created: Revision,
    /// The lease it dies with.
    pub lease: Option<LeaseId>,
    /// When it came, by the clock of whoever led the log; for people.
    pub since_ms: u64,
    /// What a session said of it. None for those who stand here by etcd's means.
    pub candidate: Option<Arc<Candidate>>,
    /// The slot it holds, if it holds.
    pub slot: Option<u32>,
    /// Whether its owner was told that it holds.
    pub told: bool,
    /// It does not want to lead now.
    pub unhealthy: bool,
}

/// What a session says of its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Whose it is.
    pub session: LeaseId,
    /// Beside whom it may hold.
    pub mode: Mode,
    /// Who has more goes first.
    pub priority: u32,
    /// Even before whoever leads.
    pub preempts: bool,
    /// To be told only when the one who held last has surely stopped.
    pub no_overlap: bool,
    /// For people and programs that list candidates.
    pub metadata: Vec<(String, String)>,
    /// All names that were joined together, this one included. Nothing is told before all are held.
    pub together: Vec<Bytes>,
}

/// Beside whom a place may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nobody.
    Exclusive,
    /// Any number of its kind.
    Shared,
    /// So many of its kind.
    Permit(u32),
}

impl Place {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.slot.is_some()
    }

    /// Beside whom it may hold. A client of etcd's knows only one way.
    pub fn mode(&self) -> Mode {
        self.candidate.as_ref().map_or(Mode::Exclusive, |candidate| candidate.mode)
    }

    /// Whether it must stay where it is: its client decides by itself, or it must stand in the same
    /// order in several lines (or two that wait for each other would wait for ever).
    pub fn is_fixed(&self) -> bool {
        self.candidate.as_ref().is_none_or(|candidate| candidate.together.len() > 1)
    }

    /// The session it belongs to.
    pub fn session(&self) -> Option<LeaseId> {
        self.candidate.as_ref().map(|candidate| candidate.session)
    }

    /// Its priority; a client of etcd's has none.
    pub fn priority(&self) -> u32 {
        self.candidate.as_ref().map_or(0, |candidate| candidate.priority)
    }

    /// Whether it goes before whoever leads with less.
    pub fn preempts(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.preempts)
    }

    /// Whether it would lead if it were its turn.
    pub fn wants_to_lead(&self) -> bool {
        !self.unhealthy
    }
}
