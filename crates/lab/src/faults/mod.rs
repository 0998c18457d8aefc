//! What goes wrong, and when: fault scripts, which people can write, and the shortest one that still
//! shows a failure.
//!
//! A script has one line for each blow: when, what, whom, and for how long.
//!
//! ```text
//! # The holder pauses for longer than its lease.
//! at 5s    pause a for 30s
//! at 12s   cut b -> c for 500ms
//! at 20s   clock leader jumps -1h
//! ```
//!
//! The same words serve textbook algorithms and clusters of the shipped replica; a world refuses what it
//! has no means for (a disk that stalls, where there are no disks).

mod action;
mod links;
mod script;
mod shrink;
mod span;

pub use action::{Action, BLOWS, Who};
pub use links::{Clears, Flapping, across, between, spoil};
pub use script::{Script, ScriptError, Step};
pub use shrink::shrink;
pub use span::{read_span, write_span};
