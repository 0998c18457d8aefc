//! The true order of a round, from the members' own logs, and every answer of the round held against it.
//!
//! A [`Witness`] reads the logs of all members while they are written, before snapshots let segments go. Of every entry
//! that a member knows to be committed it keeps one copy; another member's copy must be the same. What the entries do is
//! reckoned twice: by the state machine of the server, and by a naive [`model`] of keys and leases. Then `judge` looks at
//! each answer: revisions name places in the log, so every answer is right at one place or wrong.

pub mod judge;
pub mod model;
mod witness;

pub use judge::{Answers, LeaseAnswers, judge};
pub use model::Log;
pub use witness::Witness;
