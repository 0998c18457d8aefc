//! What members say to each other, over TCP.
//!
//! Each member calls each other member and only speaks on the connections it made; what it hears
//! comes on the connections that others made. So a connection has one direction, one owner, and one meaning when it ends. A
//! snapshot gets a connection of its own, so that it never stands in the way of heartbeats.
//!
//! Raft tolerates loss, so nothing here waits or retries on a message's behalf: if a member is
//! not connected or too slow, messages to it are dropped and counted. What raft cannot get elsewhere is
//! speed: the moment at which another process dies. Its kernel closes its connections, and
//! [`PeerEvent::Lost`] says so at once. `presence` has the rules.
//!
//! Reading order: `frame`, `handshake`, `roster`, `link`, `presence`, `outgoing`, `incoming`,
//! `transfer`, `transport`. `docs/reference/formats.md` has every byte.
//!
//! This module deliberately knows nothing of raft but a message's sender.

mod backoff;
mod frame;
mod grumble;
mod handshake;
mod incoming;
mod link;
mod outgoing;
mod presence;
mod roster;
#[cfg(test)]
mod tests;
mod transfer;
mod transport;

pub use frame::FRAME_BYTES_MAX;
pub(crate) use grumble::Grumble;
pub use handshake::PROTOCOL_VERSION;
pub use link::OUTGOING_BYTES_MAX;
pub use roster::{AskError, Roster, ask};
pub use transport::{Known, PeerEvent, Traffic, Transport, TransportConfig};
