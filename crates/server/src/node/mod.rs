//! The node: a replica with a disk, a network and a clock. It carries inputs to the replica and
//! effects away from it, and decides nothing.

mod bell;
mod core;
mod door;
pub(crate) mod files;
mod meter;
mod notices;
mod outlets;
mod peers;
mod streams;

pub use self::{
    core::{Core, CoreEvent, Parts, Stopped},
    door::{Door, LineOutlet, Submission, WatchOutlet},
    meter::Alarms,
    streams::{EncodedEvents, Stamp, StreamNews},
};
