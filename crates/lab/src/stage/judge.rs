//! Whether promises are kept: looked at as things happen, told in the end.

use std::collections::{BTreeMap, btree_map::Entry};

use tenure_replica::Moment;

use super::{NodeId, Part, Promise, Stage, Verdict, View, Word};
use crate::{engine::Event, faults::write_span};

/// What was looked at, and what was broken.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Who led in which term.
    by_term: BTreeMap<u64, NodeId>,
    token_highest: Option<u64>,
    looks: BTreeMap<&'static str, u64>,
    /// When each was first broken, and how.
    breaches: BTreeMap<&'static str, (Moment, String)>,
}

impl Record {
    /// A promise was looked at.
    pub(super) fn look(&mut self, promise: &'static str) {
        *self.looks.entry(promise).or_default() += 1;
    }
}

impl<M: Word> Stage<M> {
    pub(super) fn judge_term(&mut self, node: NodeId, view: &View) {
        let (Part::Leader, Some(term)) = (view.part, view.term) else { return };
        self.record.look("one_leader_per_term");
        let leader = *self.record.by_term.entry(term).or_insert(node);
        if leader != node {
            let (one, other) = (&self.names[leader as usize], &self.names[node as usize]);
            let how = format!("{one} and {other} both lead in term {term}");
            self.breach("one_leader_per_term", how);
        }
    }

    pub(super) fn judge_token(&mut self, node: NodeId, token: Option<u64>) {
        if token.is_none() {
            return;
        }
        self.record.look("tokens_grow");
        if token <= self.record.token_highest {
            let (name, highest) = (&self.names[node as usize], self.record.token_highest);
            let how = format!("{name} leads with token {token:?} after {highest:?}");
            self.breach("tokens_grow", how);
        }
        self.record.token_highest = self.record.token_highest.max(token);
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
            self.tell(|| Event::new("breach", format!("!! {text}")).with("promise", promise));
        }
    }

    /// Whether promises were kept so far.
    pub fn verdicts(&self, promises: &[Promise]) -> Vec<Verdict> {
        promises.iter().map(|promise| self.verdict(*promise)).collect()
    }

    fn verdict(&self, promise: Promise) -> Verdict {
        let key = match promise {
            Promise::OneBeliever => "one_believer",
            Promise::OneWriter => "one_writer",
            Promise::OneLeaderPerTerm => "one_leader_per_term",
            Promise::TokensGrow => "tokens_grow",
            Promise::Own(name) => name,
            Promise::SomebodyLeads => {
                let nobody = self.leaders().is_empty();
                let breach = nobody.then(|| (self.now(), "nobody leads".to_owned()));
                return Verdict { promise, judged: 1, breach };
            }
            Promise::VacantAtMost(limit) => {
                let longest = self.ledger.vacant_longest;
                let how = || format!("nobody led for {}", write_span(longest));
                let breach = (longest > limit).then(|| (self.now(), how()));
                return Verdict { promise, judged: 1, breach };
            }
        };
        Verdict {
            promise,
            judged: self.record.looks.get(key).copied().unwrap_or(0),
            breach: self.record.breaches.get(key).cloned(),
        }
    }
}
