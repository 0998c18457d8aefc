//! A member as the cluster knows it.

use crate::MemberId;

/// One member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id, for ever.
    pub id: MemberId,
    /// Its human name; empty until it has started for the first time.
    pub name: String,
    /// Where other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it; empty until it has started for the first time.
    pub client_urls: Vec<String>,
    /// Learners follow the log without a vote.
    pub is_learner: bool,
}
