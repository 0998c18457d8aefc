//! Once all is well, the cluster serves within a bound: somebody leads, every member takes writes and
//! reads, and who was removed has stopped. Liveness, and so the one thing that is asked only then.

use std::{fmt::Display, time::Duration};

use super::must;
use crate::engine::Counts;

pub const NAME: &str = "heals";

/// Whether what was waited for came in time.
pub fn judge(came: bool, what: impl Display, limit: Duration, counts: &mut Counts) {
    counts.count(NAME);
    must!(came, "{what}, though all has been well for {limit:?}");
}
