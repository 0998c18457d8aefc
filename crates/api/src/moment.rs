//! Time as a value.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// A point on a monotonic clock of one boot of one machine. It means nothing on another machine.
///
/// The replica compares moments and never reads a clock; the library counts them on `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// Where the clock started.
    pub const ZERO: Moment = Moment(Duration::ZERO);

    /// So long after the clock started.
    pub const fn after_start(elapsed: Duration) -> Moment {
        Moment(elapsed)
    }

    /// How long after the clock started.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// How long after `earlier`; zero if it is not.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(duration))
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;

    fn sub(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_sub(duration))
    }
}
