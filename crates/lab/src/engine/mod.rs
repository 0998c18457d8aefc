//! One thread, virtual time, one seed: what every world of the lab is made of.
//!
//! - [`Agenda`]: what will happen, and when; the only clock.
//! - [`Dice`]: the only source of chance.
//! - [`Weather`]: what the network does to what is sent.
//! - [`Trace`]: what happened, for people and for programs.
//! - [`Counts`]: how often; what was switched on and never happened proves nothing.

mod agenda;
mod counts;
mod dice;
mod trace;
mod weather;

use std::time::Duration;

pub use agenda::Agenda;
pub use counts::Counts;
pub use dice::Dice;
pub use trace::Trace;
pub use weather::Weather;

/// So many milliseconds.
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// So many microseconds.
pub const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}
