//! Leader election and distributed locks that people can trust.
//!
//! So far this is the ground that elections and locks will stand on: [`grpc`], a client of the
//! etcd v3 API that knows several members of a cluster, moves between them, and says honestly
//! whether a failed request may have happened.
//!
//! This crate knows nothing of raft or of how a member works inside: a real etcd serves it as well.

pub mod fence;
pub mod grpc;

pub use tenure_api as api;
