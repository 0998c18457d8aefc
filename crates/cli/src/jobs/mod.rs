//! Work that is to happen once for all hosts.
//!
//! - `slots`: the runs of a job, each a key of the store, and what came of them.
//! - `timetable`: at which times a job is due, and which of them is meant now.

mod slots;
mod timetable;

pub(crate) use slots::{Claim, Claimed, Delivery, Outcome, Record, Slots, SlotsError, host_now_ms};
pub(crate) use timetable::{Timetable, utc};
