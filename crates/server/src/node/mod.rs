//! The node: a replica with a disk, a network and a clock. It carries inputs to the replica and
//! effects away from it, and decides nothing.

mod core;
pub(crate) mod files;
mod handle;
mod meter;
mod notices;
mod peers;
mod streams;
mod subscriptions;
mod wake;

pub use self::{
    core::{Core, CoreEvent, Parts, Stopped},
    handle::{NodeHandle, Submission, Subscription, WatchSubscription},
    meter::Alarms,
    streams::{EncodedEvents, Stamp, StreamNews},
};
