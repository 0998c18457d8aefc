//! A lease that nobody renews ends: within its TTL, plus the time in which nobody led, plus pauses.

use std::time::Duration;

use tenure_replica::Moment;

use super::must;
use crate::{cluster::truth::Truth, engine::Counts};

pub const NAME: &str = "leases_end";

/// Every lease ended, or will end, by its last renewal plus its TTL plus `lost`: what the cluster may
/// add for its own troubles.
pub fn judge(now: Moment, lost: Duration, truth: &Truth, counts: &mut Counts) {
    for (lease, story) in &truth.leases {
        counts.count(NAME);
        let end = story.ended.map_or(now, |end| end.at);
        let due = story.renewed + story.ttl + lost;
        must!(
            end <= due,
            "lease {lease} of {:?} was last renewed at {:?} and lived until {:?} at least",
            story.ttl,
            story.renewed.since_start(),
            end.since_start()
        );
    }
}
