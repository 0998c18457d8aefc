//! The words that tenure's parts share.
//!
//! Keys, revisions, leases, operations and their results, events, members, and the table of failures
//! with etcd's codes and texts. The replica decides in these words, the server's services translate
//! from and to the wire (`wire`, behind a feature), the client speaks them to its users.
//!
//! This crate deliberately does nothing: no IO, no clock, no async. Everything in it is a value.

pub mod alarm;
pub mod duration;
pub mod election;
pub mod failure;
pub mod ids;
pub mod kv;
pub mod lease;
pub mod member;
pub mod moment;
pub mod op;
pub mod principal;
pub mod size;
pub mod span;
#[cfg(feature = "wire")]
pub mod wire;

pub use alarm::{Alarm, AlarmKind};
pub use election::{JoinSpec, Mode};
pub use failure::{Code, Failure};
pub use ids::{ClusterId, LeaseId, MemberId, Revision, Term};
pub use kv::{Event, EventKind, KeyValue};
pub use lease::{GrantedLease, LeaseStatus};
pub use member::Member;
pub use moment::Moment;
pub use op::{
    Compare, CompareResult, CompareTarget, DeleteRange, DeleteRangeResult, Op, OpResult, Put,
    PutResult, Range, RangeResult, SortOrder, SortTarget, Txn, TxnResult,
};
pub use principal::{Principal, Proof};
pub use span::Span;
