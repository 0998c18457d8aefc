//! A lease that is not renewed ends within its TTL, plus the time without a raft leader, plus pauses.

use std::time::Duration;

use tenure_replica::Moment;

use super::must;
use crate::{cluster::truth::Truth, engine::RunCounts};

pub const NAME: &str = "leases_end";

/// Checks that every lease ends by its last renewal plus its TTL plus `lost`, which the cluster may add for its outages.
pub fn check(now: Moment, lost: Duration, truth: &Truth, counts: &mut RunCounts) {
    for (lease, history) in &truth.leases {
        counts.count(NAME);
        let end = history.ended.map_or(now, |end| end.at);
        let due = history.renewed + history.ttl + lost;
        must!(
            end <= due,
            "lease {lease} of {:?} was last renewed at {:?} and lived until {:?} at least",
            history.ttl,
            history.renewed.since_start(),
            end.since_start()
        );
    }
}
