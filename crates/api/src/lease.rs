//! What is told about a lease.

use bytes::Bytes;

use crate::LeaseId;

/// A lease as granted or renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedLease {
    /// Its id.
    pub id: LeaseId,
    /// Seconds it lives without a renewal.
    pub ttl_secs: i64,
}

/// A lease as it stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    /// Its id.
    pub id: LeaseId,
    /// Whole seconds left, rounded down.
    pub remaining_secs: i64,
    /// Seconds it was granted.
    pub granted_secs: i64,
    /// The keys that die with it, if asked for.
    pub keys: Vec<Bytes>,
}
