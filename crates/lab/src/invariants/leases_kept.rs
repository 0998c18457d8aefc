//! A lease does not expire while its holder may still believe in it: for its TTL, counted from the sending of the last
//! acknowledged renewal, less the margin for clocks.

use std::{collections::BTreeMap, time::Duration};

use tenure_api::LeaseId;
use tenure_replica::Moment;

use super::must;
use crate::{cluster::truth::Truth, engine::RunCounts};

pub const NAME: &str = "leases_kept";

#[derive(Default)]
pub struct LeasesKept {
    believed_until: BTreeMap<LeaseId, Moment>,
}

/// The margin of a holder for clocks that differ: the promise of section 5 of the design.
fn margin(ttl: Duration) -> Duration {
    Duration::from_millis(100).max(ttl / 100)
}

impl LeasesKept {
    /// A grant or renewal sent at that moment was acknowledged.
    pub fn acknowledged(&mut self, lease: LeaseId, sent: Moment, ttl: Duration, truth: &Truth) {
        let until = sent + (ttl - margin(ttl));
        let believed = self.believed_until.entry(lease).or_default();
        *believed = until.max(*believed);
        self.check_one(lease, truth);
    }

    /// An entry was agreed on that may have ended leases.
    pub fn check(&self, ended: &[LeaseId], truth: &Truth, counts: &mut RunCounts) {
        for lease in ended {
            counts.count(NAME);
            self.check_one(*lease, truth);
        }
    }

    fn check_one(&self, lease: LeaseId, truth: &Truth) {
        let Some(until) = self.believed_until.get(&lease) else { return };
        let history = truth.leases.get(&lease);
        let Some(end) = history.and_then(|history| history.ended).filter(|end| end.expired) else {
            return;
        };
        must!(
            end.at >= *until,
            "lease {lease} ran out at {:?} while its holder believed in it until {:?}",
            end.at.since_start(),
            until.since_start()
        );
    }

    pub fn forget(&mut self, lease: LeaseId) {
        self.believed_until.remove(&lease);
    }
}
