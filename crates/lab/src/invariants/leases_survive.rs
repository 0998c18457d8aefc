//! A lease does not expire because it could not be renewed: it gets back the time in which there was no raft leader, or
//! in which that was paused or had no quorum.

use std::{collections::VecDeque, time::Duration};

use tenure_api::LeaseId;
use tenure_replica::Moment;

use super::must;
use crate::{
    cluster::truth::Truth,
    engine::{RunCounts, ms},
};

pub const NAME: &str = "leases_survive";

/// The tolerance of what is measured from outside: the moment of the last possible renewal is not known exactly.
const SLACK: Duration = ms(60);

/// How often the cluster is looked at.
const LOOKS_EVERY: Duration = ms(10);

/// How many outages are kept.
const TROUBLES_MAX: usize = 256;

/// The times in which nothing could be renewed, as seen from outside.
#[derive(Default)]
pub struct LeasesSurvive {
    next_look: Moment,
    since: Option<Moment>,
    troubles: VecDeque<(Moment, Moment)>,
}

impl LeasesSurvive {
    pub fn is_due(&self, now: Moment) -> bool {
        now >= self.next_look
    }

    /// Records whether a renewal has been possible since the last look.
    pub fn look(&mut self, now: Moment, is_renewable: bool) {
        self.next_look = now + LOOKS_EVERY;
        if !is_renewable {
            self.since.get_or_insert(now);
        } else if let Some(since) = self.since.take() {
            self.troubles.push_back((since, now));
            if self.troubles.len() > TROUBLES_MAX {
                self.troubles.pop_front();
            }
        }
    }

    /// How long nothing could be renewed in between. The start of each outage may be noticed late by `late`.
    fn unrenewable(&self, from: Moment, to: Moment, late: Duration) -> Duration {
        let now = self.since.map(|since| (since, to));
        let times = self.troubles.iter().copied().chain(now);
        times.map(|(since, until)| until.min(to).since(since.max(from)).saturating_sub(late)).sum()
    }

    /// An entry was agreed on that may have ended leases.
    pub fn check(&self, ended: &[LeaseId], late: Duration, truth: &Truth, counts: &mut RunCounts) {
        for lease in ended {
            counts.count(NAME);
            let Some(history) = truth.leases.get(lease) else { continue };
            let Some(end) = history.ended.filter(|end| end.expired) else { continue };
            let unrenewable = self.unrenewable(history.renewed, end.at, late);
            check_one(end.at.since(history.logged), history.ttl, unrenewable);
        }
    }
}

/// A lease expired `lived` after its last renewal, and nothing could be renewed for `unrenewable` of that.
pub fn check(lived: Duration, ttl: Duration, unrenewable: Duration, counts: &mut RunCounts) {
    counts.count(NAME);
    check_one(lived, ttl, unrenewable);
}

fn check_one(lived: Duration, ttl: Duration, unrenewable: Duration) {
    must!(
        lived + SLACK >= ttl + unrenewable,
        "a lease of {ttl:?} ran out after {lived:?}, and nothing could be renewed for {unrenewable:?} of it"
    );
}
