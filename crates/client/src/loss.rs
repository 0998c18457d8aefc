//! Why a session or a hold is over.

use std::fmt;

/// Why something that was held, or a candidacy, is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// No renewal was confirmed before the deadline, by our own clock. The server may still count
    /// the session as alive for a moment; this process must not.
    Unconfirmed,
    /// The server had no sign of life in time.
    Expired,
    /// The session was revoked.
    Revoked,
    /// The session was closed here.
    Closed,
    /// The connection broke, and the session had asked for fast release.
    ConnectionLost,
    /// The server does not know the session: it ended unseen.
    NotFound,
    /// The session was attached again elsewhere, by a process that knows its number.
    Replaced,
    /// The server does not accept our credentials any more.
    AuthLost,
    /// The key was deleted by hand.
    KeyDeleted,
    /// Given up by the holder itself.
    Resigned,
    /// An operator took it away.
    Evicted,
    /// Handed over to a chosen successor.
    Transferred,
    /// A candidate of higher priority took over.
    Preempted,
    /// It was reported as unhealthy.
    Unhealthy,
    /// The name is frozen: no candidate may hold it.
    Frozen,
    /// The thread that keeps the session has ended.
    KeeperGone,
}

impl Loss {
    /// Whether our own time was over when this was noticed, so that another holder may have begun since.
    pub(crate) fn comes_late(self) -> bool {
        matches!(self, Loss::Unconfirmed | Loss::Expired | Loss::ConnectionLost)
    }

    /// Whether the server has said that nothing of the session is left there.
    pub(crate) fn leaves_nothing(self) -> bool {
        matches!(self, Loss::Expired | Loss::Revoked | Loss::NotFound)
    }

    /// Whether the session is over, too, and not only this candidacy.
    pub(crate) fn ends_session(self) -> bool {
        match self {
            Loss::Unconfirmed
            | Loss::Expired
            | Loss::Revoked
            | Loss::Closed
            | Loss::ConnectionLost
            | Loss::NotFound
            | Loss::Replaced
            | Loss::AuthLost
            | Loss::KeeperGone => true,
            Loss::KeyDeleted
            | Loss::Resigned
            | Loss::Evicted
            | Loss::Transferred
            | Loss::Preempted
            | Loss::Unhealthy
            | Loss::Frozen => false,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loss::Unconfirmed => "no renewal was confirmed in time",
            Loss::Expired => "the session expired",
            Loss::Revoked => "the session was revoked",
            Loss::Closed => "the session was closed",
            Loss::ConnectionLost => "the connection broke",
            Loss::NotFound => "the server does not know the session",
            Loss::Replaced => "the session was attached elsewhere",
            Loss::AuthLost => "the server does not accept this user any more",
            Loss::KeyDeleted => "the key was deleted",
            Loss::Resigned => "it was given up",
            Loss::Evicted => "an operator took it away",
            Loss::Transferred => "it was handed over to a successor",
            Loss::Preempted => "a candidate of higher priority took over",
            Loss::Unhealthy => "it was reported as unhealthy",
            Loss::Frozen => "the name is frozen",
            Loss::KeeperGone => "the thread that keeps the session has ended",
        })
    }
}
