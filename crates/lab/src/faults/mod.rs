//! Fault scripts, which users can write, and the search for the shortest script that still shows a failure.
//!
//! A script has one line for each fault: when, what, its target, and for how long.
//!
//! ```text
//! # The holder pauses for longer than its lease.
//! at 5s    pause a for 30s
//! at 12s   cut b -> c for 500ms
//! at 20s   clock leader jumps -1h
//! ```
//!
//! Textbook algorithms and clusters of the shipped replica share the syntax. Stories refuse faults that their
//! algorithms cannot have, such as a disk that stalls.

mod action;
mod inject;
mod links;
mod script;
mod shrink;
mod span;

pub use action::{Action, FAULT_SYNTAX, LinkFault, Target};
pub use inject::{FOREVER, FaultHost, Undo};
pub use links::between;
pub use script::{FaultScript, SCRIPT_LINE, ScriptError, ScriptStep};
pub use shrink::shrink;
pub use span::{read_span, write_span};
