//! One suite of elections and locks for every engine.
//!
//! A [`Ground`] is a server with an engine of the library on it. The cases in the modules below are
//! functions of a ground, so every one of them runs on each; `tests/recipes.rs` lists them.

// These are tests, only not in a file of tests.
#![allow(clippy::unwrap_used)]

pub mod crowds;
pub mod elections;
pub mod electors;
mod ground;
pub mod locks;
pub mod observing;
pub mod sessions;

pub use ground::{Ground, TTL, at_once, bounded};
