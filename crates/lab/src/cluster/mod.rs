//! A whole cluster on one thread, in virtual time, from one seed.
//!
//! The machines are the shipped [`Replica`](tenure_replica::Replica)s, unchanged. Everything around
//! them is made here: a [`Net`](net::Net) that delays, loses, repeats and cuts; a [`Disk`](disk::Disk)
//! that forgets what was not flushed when its member crashes; an [`Agenda`](crate::engine::Agenda) that is the
//! only clock; [`clients`] that ask; [`faults`] that interfere. All chance comes from one
//! [`Dice`](crate::engine::Dice), nothing iterates an unordered map, so the same seed gives the same run, byte
//! for byte.
//!
//! What may never happen is written down in [`invariants`](crate::invariants), one file each, and judged after every
//! single call of a machine against the [`Truth`](truth::Truth): what the cluster has agreed on, as seen
//! from outside.

pub mod canary;
pub mod catalogue;
pub mod clients;
pub mod disk;
pub mod faults;
pub mod happening;
pub mod house;
pub mod member;
pub mod net;
pub mod process;
pub mod restore;
pub mod scenario;
pub mod so_far;
mod story;
pub mod strike;
pub mod truth;
#[allow(clippy::module_inception)]
pub mod world;

pub use canary::Canary;
pub(crate) use story::lines;
pub use world::World;
