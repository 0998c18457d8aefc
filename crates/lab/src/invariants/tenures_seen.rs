//! An observer of an election sees every tenure once, in order; unless it is told that something may be missing, and then
//! the present state.

use std::collections::BTreeMap;

use tenure::{FencingToken, Sight};
use tenure_api::Revision;

use super::must;
use crate::{cluster::truth::Truth, engine::RunCounts};

pub const NAME: &str = "tenures_seen";

#[derive(Default)]
pub struct TenuresSeen {
    observers: Vec<Observer>,
    /// When each tenure began, by its token.
    began: BTreeMap<&'static str, BTreeMap<i64, Revision>>,
}

struct Observer {
    name: &'static str,
    /// The revisions between which it has seen everything.
    since: Option<Revision>,
    upto: Revision,
    /// Tokens of the tenures that it has seen begin since then.
    seen: Vec<FencingToken>,
    last: Option<FencingToken>,
    /// It was told of a gap, and nothing since.
    in_the_dark: bool,
}

impl TenuresSeen {
    pub fn begins(&mut self, name: &'static str) -> usize {
        self.began.entry(name).or_default();
        let (since, upto, seen, last, in_the_dark) = (None, Revision(0), vec![], None, false);
        self.observers.push(Observer { name, since, upto, seen, last, in_the_dark });
        self.observers.len() - 1
    }

    pub fn sees(&mut self, observer: usize, revision: Revision, sight: Sight) {
        let observer = &mut self.observers[observer];
        observer.in_the_dark = matches!(sight, Sight::Gap);
        if observer.in_the_dark {
            observer.since = None;
            return;
        }
        must!(
            revision >= observer.upto,
            "an observer of {} is taken back from {} to {revision}",
            observer.name,
            observer.upto
        );
        observer.upto = revision;
        let anew = observer.since.is_none();
        if anew {
            observer.since = Some(revision);
            observer.seen.clear();
        }
        match sight {
            Sight::Leads(tenure) => {
                let again = anew && observer.last == Some(tenure.token);
                must!(
                    again || observer.last.is_none_or(|last| last < tenure.token),
                    "an observer of {} sees token {} after {:?}",
                    observer.name,
                    tenure.token,
                    observer.last
                );
                observer.last = Some(tenure.token);
                observer.seen.push(tenure.token);
            }
            Sight::Proclaims(tenure) => must!(
                observer.last == Some(tenure.token),
                "an observer of {} sees {} proclaim, but saw {:?} begin",
                observer.name,
                tenure.token,
                observer.last
            ),
            Sight::NoLeader | Sight::Gap => {}
        }
    }

    /// Learns the tenures that the cluster has agreed on.
    pub fn learn(&mut self, truth: &Truth) {
        for (name, began) in &mut self.began {
            let Some(election) = truth.state().elections.election(name.as_bytes()) else {
                continue;
            };
            began.extend(election.tenures().map(|tenure| (tenure.token.0, tenure.from)));
        }
    }

    /// Called when everything has had time to arrive.
    pub fn check(&self, counts: &mut RunCounts) {
        for observer in &self.observers {
            must!(
                !observer.in_the_dark,
                "an observer of {} was told of a gap, and not the present state",
                observer.name
            );
            let Some(since) = observer.since else { continue };
            let there = self.began[observer.name].iter();
            let expected = there.filter(|(_, from)| **from > since && **from <= observer.upto);
            for (token, from) in expected {
                counts.count(NAME);
                must!(
                    observer.seen.iter().any(|seen| seen.get() == *token),
                    "an observer of {} has not seen token {token}, which began at {from}; it saw \
                     everything from {since} to {}",
                    observer.name,
                    observer.upto
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "not the present state")]
    fn tenures_seen_rejects_a_gap_that_no_state_follows() {
        let mut seen = TenuresSeen::default();
        let observer = seen.begins("jobs");
        seen.sees(observer, Revision(3), Sight::NoLeader);
        seen.check(&mut RunCounts::default());
        seen.sees(observer, Revision(4), Sight::Gap);
        seen.check(&mut RunCounts::default());
    }
}
