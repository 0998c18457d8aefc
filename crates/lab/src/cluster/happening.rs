//! What happens in a cluster's world.

use tenure_replica::{Frozen, Input, RaftMessage};

use super::{disk::Chunks, member::Number, strike::Undo};
use crate::faults::Step;

/// One thing that will happen.
#[derive(Debug)]
pub enum Happening {
    /// A member's loop runs, if this is still the call it waits for.
    Call { member: Number, life: u64, ticket: u64 },
    /// Something reaches a member's process.
    Arrive { to: Number, life: u64, input: Box<Input> },
    /// The disk has flushed what it was writing.
    Flushed { member: Number, life: u64 },
    /// A snapshot was written, or not.
    SnapshotWritten { member: Number, life: u64, frozen: Box<Frozen>, good: bool },
    /// A snapshot has gone over the wire.
    SnapshotCame {
        from: (Number, u64),
        to: (Number, u64),
        message: Box<RaftMessage>,
        chunks: Chunks,
    },
    /// A process starts.
    Start(Number),
    /// A process ends.
    Crash { member: Number, life: u64 },
    /// A paused process goes on.
    Resume { member: Number, life: u64 },
    /// Two members try to connect.
    Connect(Number, Number),
    /// A member hangs up on one that was removed.
    Dismiss(Number, Number),
    /// A client's turn.
    Client(usize),
    /// Chance picks a fault.
    Nemesis,
    /// A blow of the script falls.
    Blow(Box<Step>),
    /// A fault ends.
    Undo(Undo),
}
