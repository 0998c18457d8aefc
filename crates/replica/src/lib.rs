//! One member of the cluster as a pure machine.
//!
//! [`Replica`] takes inputs (a request, a peer's message, "the disk has it", "time has passed") and
//! answers with effects (write this, send that, answer so). It owns the raft log, the store, the
//! leases and the watchers. It never does anything itself: no file, socket, clock or chance lives
//! here, which is why the server and the lab can both be its host.

#[doc(hidden)]
#[macro_use]
pub mod canary;

pub mod auth;
mod batch_window;
pub mod codec;
pub mod command;
mod digest;
pub mod election;
pub mod input;
pub mod lease;
pub mod log;
mod membership;
pub mod message;
pub mod mvcc;
pub mod new_cluster;
pub mod presence;
mod proposals;
mod raft;
mod reads;
pub mod replica;
pub mod snapshot;
pub mod state;
pub mod watch;
mod writes;

pub use election::{CandidacyView, ElectionOutcome};
pub use input::{
    Answer, AuthRead, AuthReply, Consistency, Effects, Fatal, Input, Notice, Operation,
    PasswordCheck, PeerProgress, Read, Reply, Request, RequestId,
};
pub use log::{Entry, EntryKind, HardState, LogIndex, Persist, SnapshotMark};
pub use message::{Message, RaftKind, RaftMessage};
pub use raft::{RaftRole, RefusedMessage};
pub use replica::{
    CandidateView, Counts, ElectionSummary, ElectionView, PipelineLimits, RaftTimer, Recovered,
    Replica, ReplicaConfig, Retention, SessionView, SessionsView, Status,
};
pub use snapshot::{Snapshot, SnapshotReader};
pub use state::{Applied, EntryContent, EntryContext, Outcome, State};
pub use tenure_api::Moment;
