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
//! Reading order: `frame`, `handshake`, `security`, `roster`, `link`, `presence`, `outgoing`, `strangers`, `incoming`,
//! `transfer`, `transport`. `docs/reference/formats.md` has every byte.
//!
//! Whoever can open a connection can say hello. So nothing that ends this member or that stays is believed because of what
//! a caller says: that this member was removed counts only as the answer of a member on the replicated list, at its address on
//! that list; so does a member's life (its boot number), and the list of members itself.
//!
//! This module deliberately knows nothing of raft but a message's sender, and which life of it made a batch.

mod backoff;
mod frame;
mod grumble;
mod handshake;
mod incoming;
mod link;
mod outgoing;
mod presence;
mod roster;
mod security;
mod strangers;
#[cfg(test)]
mod tests;
mod transfer;
mod transport;

pub use frame::FRAME_BYTES_MAX;
pub(crate) use grumble::Grumble;
pub use handshake::PROTOCOL_VERSION;
pub use link::OUTGOING_BYTES_MAX;
pub use roster::{AskError, Roster, ask};
pub use security::PeerSecurity;
pub use transport::{Known, PeerEvent, Traffic, Transport, TransportConfig};
