//! One thread, virtual time, one seed: what every world of the lab is made of.
//!
//! - [`Agenda`]: what will happen, and when; the only clock.
//! - [`Clock`]: what one process would read; two clocks never agree.
//! - [`Dice`]: the only source of chance.
//! - [`Links`], [`Weather`]: what the network does to what is sent.
//! - [`Executor`]: runs the tasks of one process, for what is written with async.
//! - [`Trace`]: what happened, for people and for programs.
//! - [`Counts`]: how often; what was switched on and never happened proves nothing.

mod agenda;
mod clock;
mod counts;
mod dice;
mod executor;
mod links;
mod trace;
mod weather;

use std::time::Duration;

pub use agenda::Agenda;
pub use clock::Clock;
pub use counts::Counts;
pub use dice::Dice;
pub use executor::Executor;
pub use links::{End, Links};
pub use trace::{Event, Form, Trace};
pub use weather::Weather;

/// So many milliseconds.
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// So many microseconds.
pub const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}
