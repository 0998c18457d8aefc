//! Election algorithms and whole clusters in virtual time: textbook algorithms on a [`stage`], the shipped replica in a
//! [`cluster`], the shipped library in [`recipes`].

// An internal crate: module docs and names suffice.
#![allow(missing_docs)]

pub mod algorithms;
pub mod cluster;
pub mod compare;
pub mod device;
pub mod engine;
pub mod faults;
pub mod invariants;
pub mod recipes;
pub mod stage;
pub mod tours;

pub use tenure_replica::canary::Canary;
