//! After the end of all faults the cluster serves within a bound: there is a raft leader, every member serves reads and
//! writes, and removed members have stopped. This is liveness, and so checked only then.

use std::{fmt::Display, time::Duration};

use super::must;
use crate::engine::RunCounts;

pub const NAME: &str = "heals";

/// Whether what was waited for happened in time.
pub fn check(came: bool, what: impl Display, limit: Duration, counts: &mut RunCounts) {
    counts.count(NAME);
    must!(came, "{what}, {limit:?} after all faults ended");
}
