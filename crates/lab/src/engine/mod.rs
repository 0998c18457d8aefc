//! One thread, virtual time, one seed: the parts of every simulation in the lab.
//!
//! - [`Agenda`]: the events to come; the only true clock.
//! - [`SimClock`]: the clocks of one process; no two agree.
//! - [`Dice`]: the only source of randomness.
//! - [`Links`], [`NetworkConditions`]: delays, loss, cuts.
//! - [`Executor`]: runs the async tasks of one process.
//! - [`Trace`]: the events of a run, as text or JSON.
//! - [`RunCounts`]: how often each fault and each check happened.

mod agenda;
mod clock;
mod counts;
mod dice;
mod executor;
mod links;
mod trace;

use std::time::Duration;

pub use agenda::Agenda;
pub use clock::SimClock;
pub use counts::RunCounts;
pub use dice::Dice;
pub use executor::Executor;
pub use links::{Links, NetworkConditions, ProcessId};
pub use trace::{Trace, TraceEvent, TraceFormat};

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}
