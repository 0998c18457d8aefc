//! From the wire to the words and back.
//!
//! Requests come in through functions that make etcd's checks of form ([`range`], [`put`],
//! [`delete_range`], [`txn`]) and answer with the very [`Failure`](crate::Failure) etcd would; what
//! the state machine judges itself (leases, revisions, operations that clash) is left to it. Everything else is a
//! plain `From`. Answers leave without a header: only the server knows what belongs in it.
//!
//! Nothing here copies a key or a value; `Bytes` are shared.

mod answer;
mod compare;
mod election;
mod kv;
mod lease;
mod member;
mod request;
mod txn;

pub use request::{delete_range, put, range, range_request};
pub use txn::{TXN_DEPTH_MAX, txn};

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod round_trip;
