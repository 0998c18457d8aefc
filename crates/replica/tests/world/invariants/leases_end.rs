//! A lease that nobody renews ends: within its TTL, plus the time in which nobody led, plus pauses.

use std::time::Duration;

use tenure_replica::Moment;

use super::must;
use crate::world::{counts::Counts, truth::Truth};

pub const NAME: &str = "leases_end";

/// Every lease that was last renewed before its TTL and `lost` ago must be gone. `lost` is what the
/// cluster may add for its own troubles.
pub fn judge(now: Moment, lost: Duration, truth: &Truth, counts: &mut Counts) {
    for (lease, story) in &truth.leases {
        if story.ended.is_some() {
            continue;
        }
        counts.count(NAME);
        let due = story.renewed + Duration::from_secs(story.ttl_secs as u64) + lost;
        must!(
            now <= due,
            "lease {lease} of {} s lives, though it was renewed at {:?} and now is {:?}",
            story.ttl_secs,
            story.renewed.since_start(),
            now.since_start()
        );
    }
}
