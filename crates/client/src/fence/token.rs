//! The number that goes with every hold.

use std::fmt;

/// Says which hold a write belongs to. For one name, who holds later has the greater token, across
/// restarts, restores and changes of the raft leader.
///
/// It is the create revision of the holder's key, so a stock etcd client can read it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// The token of a key that was created at this revision; none for a key that does not exist.
    pub fn from_revision(create_revision: i64) -> Option<FencingToken> {
        (create_revision > 0).then_some(FencingToken(create_revision))
    }

    /// As a number, for headers, columns and environment variables.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
