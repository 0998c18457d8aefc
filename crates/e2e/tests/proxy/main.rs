//! The fencing proxy: what it answers, what it lets through, and what becomes of what is under way.
#![allow(clippy::unwrap_used)]

mod answers;
mod bodies;
mod clients;
mod crowd;
mod ends;
mod heads;
mod page;
