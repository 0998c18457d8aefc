//! Past leaders, and why their tenures ended.

use bytes::Bytes;
use tenure_api::Revision;

/// One leader's tenure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The leader's identity, for people: the session's, or the value of a stock client's key.
    pub identity: String,
    /// With which token.
    pub token: Revision,
    /// What it showed, shortened.
    pub value: Bytes,
    /// The revision at which it began to lead.
    pub from: Revision,
    /// The clock then, in milliseconds since 1970; for people.
    pub from_ms: u64,
    /// How it ended, if it did.
    pub end: Option<TenureEnd>,
}

/// The end of a tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenureEnd {
    /// The revision at which it ended.
    pub at: Revision,
    /// The clock then; for people.
    pub at_ms: u64,
    /// Why.
    pub why: EndReason,
    /// The leader has said that its work has ended, then or later.
    pub stopped: bool,
}

/// Why a tenure, or the wait for one, ended. The numbers are those of the wire and of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Given up by the candidate itself.
    Resigned = 2,
    /// The session gave no sign of life in time.
    Expired = 3,
    /// The session was revoked.
    Revoked = 4,
    /// The session was closed.
    Closed = 5,
    /// The process died: its connection broke, and it had asked for fast release.
    ConnectionLost = 6,
    /// An operator took it away.
    Evicted = 7,
    /// Handed over to a chosen successor.
    Transferred = 8,
    /// A candidate of higher priority took over.
    Preempted = 9,
    /// It reported itself unhealthy.
    Unhealthy = 10,
    /// The name was frozen.
    Frozen = 11,
    /// The key was deleted by hand.
    Deleted = 12,
}

impl EndReason {
    /// Whether the successor was chosen by an operator.
    pub fn is_choice(self) -> bool {
        self == EndReason::Transferred
    }

    /// The reason of this number.
    pub fn from_number(number: u8) -> Option<EndReason> {
        use EndReason::*;
        [
            Resigned,
            Expired,
            Revoked,
            Closed,
            ConnectionLost,
            Evicted,
            Transferred,
            Preempted,
            Unhealthy,
            Frozen,
            Deleted,
        ]
        .into_iter()
        .find(|end| *end as u8 == number)
    }
}
