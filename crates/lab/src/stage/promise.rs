//! What an algorithm says of itself, and whether it was kept.

use std::{fmt, time::Duration};

use tenure_replica::Moment;

use crate::faults::write_span;

/// Something an algorithm promises. A scenario names those that it breaks; all others must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Promise {
    /// Never two running processes that believe to lead.
    OneBeliever,
    /// No write of an earlier leader is taken after one of a later leader.
    OneWriter,
    /// In each term at most one leads.
    OneLeaderPerTerm,
    /// Every leader's token is higher than those before.
    TokensGrow,
    /// When the run ends, somebody leads.
    SomebodyLeads,
    /// Nobody was missing a leader for longer than this.
    VacantAtMost(Duration),
    /// Something of the algorithm's own.
    Own(&'static str),
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Promise::OneBeliever => f.write_str("at most one believes to lead"),
            Promise::OneWriter => f.write_str("no write of an earlier leader after one of a later"),
            Promise::OneLeaderPerTerm => f.write_str("at most one leader in a term"),
            Promise::TokensGrow => f.write_str("tokens grow"),
            Promise::SomebodyLeads => f.write_str("somebody leads in the end"),
            Promise::VacantAtMost(limit) => {
                write!(f, "never without a leader for longer than {}", write_span(*limit))
            }
            Promise::Own(name) => f.write_str(name),
        }
    }
}

/// Whether a promise was kept.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub promise: Promise,
    /// How often it was looked at. What was never looked at proves nothing.
    pub judged: u64,
    /// When it was first broken, and how.
    pub breach: Option<(Moment, String)>,
}

impl Verdict {
    pub fn is_kept(&self) -> bool {
        self.breach.is_none()
    }
}
