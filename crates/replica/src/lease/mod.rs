//! Leases: a client's sign of life, and the keys that die without it.
//!
//! Two halves, kept apart on purpose. [`Leases`] is replicated: which leases exist, what they hold,
//! at which log index they last gave a sign of life. It knows no time. [`Deadlines`] is one member's
//! own reckoning of when each runs out; every member keeps one, the raft leader's is acted on, and
//! what is logged is never a time but the revocation it led to.

mod book;
mod deadlines;

pub use book::{LEASE_BYTES, LEASES_MAX, Lease, Leases, SESSION_BYTES};
pub use deadlines::{Deadlines, RenewalStamp};
