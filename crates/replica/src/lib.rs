//! One member of the cluster as a pure machine.
//!
//! [`Replica`] takes inputs (a request, a peer's message, "the disk has it", "time has passed") and
//! answers with effects (write this, send that, answer so). It owns the raft log, the store, the
//! leases and the watchers. It never does anything itself: no file, socket, clock or chance lives
//! here, which is why the server and the lab can both be its house.

pub mod codec;
pub mod log;
pub mod message;
pub mod mvcc;

pub use log::{Entry, EntryKind, HardState, LogIndex, Persist, SnapshotMark};
pub use message::{Message, RaftKind, RaftMessage};
