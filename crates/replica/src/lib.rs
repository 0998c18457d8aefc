//! One member of the cluster as a pure machine.
//!
//! [`Replica`] takes inputs (a request, a peer's message, "the disk has it", "time has passed") and
//! answers with effects (write this, send that, answer so). It owns the raft log, the store, the
//! leases and the watchers. It never does anything itself: no file, socket, clock or chance lives
//! here, which is why the server and the lab can both be its house.

#[doc(hidden)]
pub mod canary;
pub mod codec;
pub mod command;
mod digest;
mod gather;
pub mod input;
pub mod lease;
pub mod log;
mod membership;
pub mod message;
pub mod moment;
pub mod mvcc;
mod proposals;
pub mod queue;
mod raft;
mod reads;
pub mod refound;
pub mod replica;
pub mod snapshot;
pub mod state;
pub mod watch;
mod writes;

pub use input::{
    Answer, Consistency, Effects, Fatal, Input, Notice, Read, Reply, Request, RequestId,
};
pub use log::{Entry, EntryKind, HardState, LogIndex, Persist, SnapshotMark};
pub use message::{Message, RaftKind, RaftMessage};
pub use moment::Moment;
pub use raft::Role;
pub use replica::{
    Config, Counts, LineSummary, LineView, RaftTimer, Recovered, Replica, Retention, Seat,
    SessionView, SessionsView, Status,
};
pub use snapshot::{Frozen, Thaw};
pub use state::{At, LineDone, Outcome, PlaceInfo, State};
