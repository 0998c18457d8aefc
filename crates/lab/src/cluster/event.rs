//! The events of a simulated cluster.

use tenure_replica::{Input, Moment, RaftMessage, Snapshot};

use super::{
    disk::Chunks,
    member::MemberNumber,
    net::{ConnectionEvent, ConnectionId},
};
use crate::faults::{ScriptStep, Undo};

/// An event on the agenda.
#[derive(Debug)]
pub enum WorldEvent {
    /// A member's loop runs, if this ticket is still valid.
    Call { member: MemberNumber, life: u64, ticket: u64 },
    /// An input reaches a member's process.
    Arrive { to: MemberNumber, life: u64, input: Box<Input> },
    /// The disk has flushed what it was writing.
    Flushed { member: MemberNumber, life: u64 },
    /// A snapshot was written, or failed.
    SnapshotWritten { member: MemberNumber, life: u64, snapshot: Box<Snapshot>, good: bool },
    /// A snapshot has arrived from another member.
    SnapshotCame {
        from: (MemberNumber, u64),
        to: (MemberNumber, u64),
        message: Box<RaftMessage>,
        chunks: Chunks,
    },
    /// A process starts.
    Start(MemberNumber),
    /// A process ends.
    Crash { member: MemberNumber, life: u64 },
    /// A paused process resumes.
    Resume { member: MemberNumber, life: u64 },
    /// One member connects to another.
    Connect(MemberNumber, MemberNumber),
    /// A member's socket reports an event of a connection with another member.
    Connection {
        ends: (MemberNumber, MemberNumber),
        life: u64,
        id: ConnectionId,
        event: ConnectionEvent,
    },
    /// The end of a connection could not be reported, because the link was cut.
    EndUnseen {
        ends: (MemberNumber, MemberNumber),
        life: u64,
        id: ConnectionId,
        event: ConnectionEvent,
        given_up: Moment,
    },
    /// A member closes its connections with one that was removed.
    Dismiss(MemberNumber, MemberNumber),
    /// A client's turn.
    ClientTurn(usize),
    /// Chance picks a fault.
    Nemesis,
    /// A step of the fault script is due.
    Inject(Box<ScriptStep>),
    /// A fault ends.
    Undo(Undo),
}
