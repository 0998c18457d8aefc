//! The properties that an algorithm claims. They are checked while a run goes on; its end says which of them held.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    time::Duration,
};

use tenure_replica::Moment;

use super::{ProcessId, ProcessRole, ProcessView, ProtocolMessage, Stage};
use crate::{engine::TraceEvent, faults::write_span};

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

impl Promise {
    /// Its name in the record and in traces; none for those that are judged when the run ends.
    pub fn key(self) -> Option<&'static str> {
        match self {
            Promise::OneBeliever => Some("one_believer"),
            Promise::OneWriter => Some("one_writer"),
            Promise::OneLeaderPerTerm => Some("one_leader_per_term"),
            Promise::TokensGrow => Some("tokens_grow"),
            Promise::Own(name) => Some(name),
            Promise::LeaderAtEnd | Promise::VacantAtMost(_) => None,
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

/// How often each promise was checked, and which were broken.
#[derive(Debug, Default)]
pub(super) struct PromiseRecord {
    /// The leader of each term.
    by_term: BTreeMap<u64, ProcessId>,
    token_highest: Option<u64>,
    looks: BTreeMap<&'static str, u64>,
    /// When each promise was first broken, and how.
    breaches: BTreeMap<&'static str, (Moment, String)>,
}

impl PromiseRecord {
    /// Counts a check of a promise.
    pub(super) fn look(&mut self, promise: &'static str) {
        *self.looks.entry(promise).or_default() += 1;
    }
}

impl<M: ProtocolMessage> Stage<M> {
    pub(super) fn check_term(&mut self, process: ProcessId, view: &ProcessView) {
        let (ProcessRole::Leader, Some(term)) = (view.role, view.term) else { return };
        self.record.look("one_leader_per_term");
        let leader = *self.record.by_term.entry(term).or_insert(process);
        if leader != process {
            let (one, other) = (&self.names[leader as usize], &self.names[process as usize]);
            let how = format!("{one} and {other} both lead in term {term}");
            self.breach("one_leader_per_term", how);
        }
    }

    pub(super) fn check_token(&mut self, process: ProcessId, token: Option<u64>) {
        let Some(token) = token else { return };
        self.record.look("tokens_grow");
        if let Some(highest) = self.record.token_highest.filter(|highest| token <= *highest) {
            let name = &self.names[process as usize];
            let how = format!("{name} leads with token {token} after one with token {highest}");
            self.breach("tokens_grow", how);
        }
        self.record.token_highest = self.record.token_highest.max(Some(token));
    }

    pub(super) fn count_believers(&mut self) {
        let now = self.now();
        let leaders = self.leaders();
        self.ledger.believers(now, leaders.len());
        self.record.look("one_believer");
        if leaders.len() > 1 {
            let names: Vec<&str> =
                leaders.iter().map(|leader| self.names[*leader as usize].as_str()).collect();
            let how = format!("{} believe to lead", names.join(" and "));
            self.breach("one_believer", how);
        }
    }

    pub(super) fn breach(&mut self, promise: &'static str, how: String) {
        let now = self.now();
        let text = how.clone();
        if let Entry::Vacant(first) = self.record.breaches.entry(promise) {
            first.insert((now, how));
            self.trace_event(|| {
                TraceEvent::new("breach", format!("!! {text}")).with("promise", promise)
            });
        }
    }

    /// Whether each promise has held so far.
    pub fn verdicts(&self, promises: &[Promise]) -> Vec<Verdict> {
        promises.iter().map(|promise| self.verdict(*promise)).collect()
    }

    fn verdict(&self, promise: Promise) -> Verdict {
        let Some(key) = promise.key() else {
            let breach = match promise {
                Promise::VacantAtMost(limit) => {
                    let longest = self.ledger.vacant_longest;
                    (longest > limit)
                        .then(|| format!("there was no leader for {}", write_span(longest)))
                }
                _ => self.leaders().is_empty().then(|| "there is no leader".to_owned()),
            };
            return Verdict { promise, checked: 1, breach: breach.map(|how| (self.now(), how)) };
        };
        Verdict {
            promise,
            checked: self.record.looks.get(key).copied().unwrap_or(0),
            breach: self.record.breaches.get(key).cloned(),
        }
    }
}
