//! The shipped recipes in virtual time: sessions, elections, locks and electors of the library, against
//! a cluster of shipped replicas, through the shipped service for sessions and lines.
//!
//! What is real: everything of the library from `Election` down to the words of `tenure.v1`; the server's
//! end of a session's stream; the replicas. What is made here:
//!
//! - [`Program`](program::Program): a process of some application, with a clock of its own that runs a
//!   little fast or slow, that can be stopped, cut off and killed. Its tasks run on an
//!   [`Executor`](crate::engine::Executor).
//! - [`Cast`](cast::Cast): who there is, for a scenario.
//! - [`script`]: what programs do with the recipes, and what they believe while they do it.
//! - [`story`]: what is told of that.
//! - [`wire`] and [`post`]: what carries `tenure.v1`, in place of gRPC: calls that keep order, take their
//!   time, break, or are cut without a word.
//! - [`door`]: a member's end of the calls.
//! - [`Town`](town::Town): all programs and doors together, as one client of the cluster's world.

pub mod cast;
pub mod door;
pub mod post;
pub mod program;
pub mod script;
pub mod story;
pub mod town;
pub mod wire;
