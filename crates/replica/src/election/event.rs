//! What happens in elections and to sessions.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{KeyValue, LeaseId, Revision};

use super::{Candidate, EndReason, SessionEndReason, Tenure};

/// What happened in an election or to a session, in order, for the listeners concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionEvent {
    /// A candidate holds, and may be told.
    Granted {
        /// Where.
        name: Bytes,
        /// The candidate.
        candidate: Arc<Candidate>,
        /// The previous leader's identity; empty if none is known.
        predecessor: String,
    },
    /// A candidate is gone.
    Gone {
        /// Where.
        name: Bytes,
        /// What it was.
        candidate: Arc<Candidate>,
        /// Why.
        why: EndReason,
    },
    /// A candidate was put behind others.
    Moved {
        /// Where.
        name: Bytes,
        /// As it is now.
        candidate: Arc<Candidate>,
        /// As it was.
        old: Arc<Candidate>,
        /// Why.
        why: EndReason,
    },
    /// The leader is asked to make room for another.
    Drain {
        /// Where.
        name: Bytes,
        /// The leader.
        candidate: Arc<Candidate>,
        /// The successor.
        successor: String,
        /// In which time.
        within_ms: u64,
    },
    /// It need not any more.
    DrainCancelled {
        /// The leader need not make room any more.
        name: Bytes,
        /// The leader.
        candidate: Arc<Candidate>,
    },
    /// A tenure began.
    Began {
        /// Where.
        name: Bytes,
        /// Its tenure.
        tenure: Tenure,
        /// Its key as it is then.
        kv: Arc<KeyValue>,
    },
    /// The leader shows something else.
    Proclaimed {
        /// Where.
        name: Bytes,
        /// Its tenure.
        tenure: Tenure,
        /// Its key as it is then.
        kv: Arc<KeyValue>,
    },
    /// A tenure ended.
    TenureEnded {
        /// Where.
        name: Bytes,
        /// Which.
        tenure: Tenure,
    },
    /// There is no leader.
    Vacant {
        /// Where.
        name: Bytes,
        /// Since when.
        revision: Revision,
        /// Because the name is frozen.
        frozen: bool,
    },
    /// A stream attached to a session, for the first time or again.
    Attached {
        /// Which.
        session: LeaseId,
        /// For which time.
        attachment: u64,
        /// The mark of this attachment.
        by: u64,
    },
    /// A session is no more.
    SessionEnded {
        /// Which.
        session: LeaseId,
        /// Why.
        why: SessionEndReason,
    },
    /// A session's stop is not confirmed: its time begins to run out.
    Delayed {
        /// Which.
        session: LeaseId,
    },
    /// The wait for a session's stop is over.
    DelayOver {
        /// Which.
        session: LeaseId,
    },
}
