//! A whole cluster on one thread, in virtual time, from one seed.
//!
//! The members are the shipped [`Replica`](tenure_replica::Replica)s, unchanged. Everything around them is
//! simulated: a [`MemberNetwork`](net::MemberNetwork) that delays, loses, repeats and cuts; a
//! [`SimDisk`](disk::SimDisk) with the shipped log and recovery, on a [`Device`](crate::device::Device) that tears,
//! rots and loses what was not flushed; an [`Agenda`](crate::engine::Agenda) that is the only clock; [`clients`];
//! [`faults`]. All randomness comes from one [`Dice`](crate::engine::Dice), and nothing iterates an unordered map, so the
//! same seed gives the same run, byte for byte.
//!
//! What may never happen is in [`invariants`](crate::invariants), one file each. They are checked after every call of a
//! replica against the [`Truth`](truth::Truth): what the cluster has agreed on, as seen from outside.

pub mod catalogue;
pub mod clients;
pub mod core_majority;
pub mod disk;
pub mod event;
pub mod faults;
pub mod host;
pub mod inject;
pub mod member;
pub mod net;
pub mod process;
pub mod progress;
pub mod restore;
pub mod scenario;
mod trace_events;
pub mod truth;
#[allow(clippy::module_inception)]
pub mod world;

pub(crate) use trace_events::elections;
pub use world::World;
