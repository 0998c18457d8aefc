//! The properties that an algorithm claims, and whether they held.

use std::{fmt, time::Duration};

use tenure_replica::Moment;

use crate::faults::write_span;

/// A property that an algorithm claims. A story lists those that it breaks; all others must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Promise {
    /// No two running processes believe to lead at the same time.
    OneBeliever,
    /// No write of an earlier leader is taken after one of a later leader.
    OneWriter,
    /// At most one process leads in each term.
    OneLeaderPerTerm,
    /// Every leader's token is higher than all before.
    TokensGrow,
    /// There is a leader when the run ends.
    LeaderAtEnd,
    /// No time without a leader is longer than this.
    VacantAtMost(Duration),
    /// A property of the algorithm's own.
    Own(&'static str),
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Promise::OneBeliever => f.write_str("at most one believes to lead"),
            Promise::OneWriter => f.write_str("no write of an earlier leader after one of a later"),
            Promise::OneLeaderPerTerm => f.write_str("at most one leader in a term"),
            Promise::TokensGrow => f.write_str("tokens grow"),
            Promise::LeaderAtEnd => f.write_str("a leader at the end"),
            Promise::VacantAtMost(limit) => {
                write!(f, "never without a leader for longer than {}", write_span(*limit))
            }
            Promise::Own(name) => f.write_str(name),
        }
    }
}

/// Whether a promise held.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub promise: Promise,
    /// How often it was checked. A promise that was never checked proves nothing.
    pub checked: u64,
    /// When it was first broken, and how.
    pub breach: Option<(Moment, String)>,
}

impl Verdict {
    pub fn is_kept(&self) -> bool {
        self.breach.is_none()
    }
}
