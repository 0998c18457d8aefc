//! A lease does not run out for want of somebody to renew it with: time in which nobody could renew, because
//! there was no raft leader or because it stood still, is given back.

use std::time::Duration;

use super::must;
use crate::engine::Counts;

pub const NAME: &str = "leases_survive";

/// Of what is measured from outside, so much may be wrong: nobody knows the very moment at which the last
/// renewal could have been taken.
const SLACK: Duration = Duration::from_millis(60);

/// A lease ran out so long after its last renewal, and nobody could renew for so long in between.
pub fn judge(lived: Duration, ttl: Duration, unrenewable: Duration, counts: &mut Counts) {
    counts.count(NAME);
    must!(
        lived + SLACK >= ttl + unrenewable,
        "a lease of {ttl:?} ran out after {lived:?}, and nobody could renew for {unrenewable:?} of it"
    );
}
