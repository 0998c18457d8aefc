//! Election algorithms in virtual time, ours among them.

// Rooms here are read, not linked against: names and module texts say it.
#![allow(missing_docs)]

pub mod algorithms;
pub mod cluster;
pub mod compare;
pub mod engine;
pub mod faults;
pub mod invariants;
pub mod recipes;
pub mod stage;
