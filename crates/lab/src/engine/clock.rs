//! The clocks of one process: what it would read, at a moment of true time.
//!
//! There are two, as on any machine. The *monotonic* clock never goes back and may run a little fast or
//! slow. The *wall* clock is the same, but somebody may have set it wrong, and may set it while the
//! process runs. Rates change from one moment on; what was read before stays read.

use std::time::Duration;

use tenure_replica::Moment;

const MILLION: i128 = 1_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// How much faster than true time it runs, in millionths.
    ppm: i64,
    /// Since when it runs so, in true time, and what it read then.
    since: Moment,
    read: Moment,
    /// How far the wall clock is ahead of the monotonic one, in microseconds.
    ahead_us: i64,
}

impl Clock {
    /// A clock that runs so much too fast (in millionths) and starts so far ahead.
    pub fn new(ppm: i64, ahead: Duration) -> Clock {
        Clock { ppm, ahead_us: ahead.as_micros() as i64, ..Clock::default() }
    }

    /// What the monotonic clock says.
    pub fn monotonic(&self, now: Moment) -> Moment {
        let elapsed = now.since(self.since).as_micros() as i128;
        let local = elapsed + elapsed * i128::from(self.ppm) / MILLION;
        self.read + Duration::from_micros(local.max(0) as u64)
    }

    /// When the monotonic clock will say so; now, if it says more already.
    pub fn when(&self, local: Moment, now: Moment) -> Moment {
        self.moment(local).max(now)
    }

    /// When the monotonic clock says so, or said so, as far as it has run evenly since.
    pub fn moment(&self, local: Moment) -> Moment {
        let left = local.since(self.read).as_micros() as i128;
        let elapsed = left * MILLION / (MILLION + i128::from(self.ppm)).max(1);
        // Rounded up: whoever is woken a moment early finds nothing to do.
        self.since + Duration::from_micros(elapsed.max(0) as u64 + 1)
    }

    /// What the wall clock says, as time since some day long ago that all processes agree on.
    pub fn wall(&self, now: Moment) -> Duration {
        let monotonic = self.monotonic(now).since_start().as_micros() as i128;
        Duration::from_micros((LONG_AGO_US + monotonic + i128::from(self.ahead_us)).max(0) as u64)
    }

    /// How much too fast it runs, in millionths.
    pub fn ppm(&self) -> i64 {
        self.ppm
    }

    /// From now on it runs so much too fast.
    pub fn drift(&mut self, now: Moment, ppm: i64) {
        self.read = self.monotonic(now);
        self.since = now;
        self.ppm = ppm;
    }

    /// Somebody sets the wall clock so far ahead (or back).
    pub fn jump(&mut self, by_us: i64) {
        self.ahead_us += by_us;
    }
}

/// The run begins at this time of day, so that a wall clock can be set back.
const LONG_AGO_US: i128 = 86_400 * MILLION;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ms;

    fn at(millis: u64) -> Moment {
        Moment::after_start(ms(millis))
    }

    #[test]
    fn a_clock_that_runs_fast_says_more_and_wakes_earlier() {
        let clock = Clock::new(100_000, Duration::ZERO);
        assert_eq!(clock.monotonic(at(1000)), at(1100));
        let when = clock.when(at(1100), at(0));
        assert!(when >= at(1000) && when <= at(1001));
    }

    #[test]
    fn a_change_of_rate_does_not_change_what_was_read() {
        let mut clock = Clock::new(0, Duration::ZERO);
        clock.drift(at(1000), -500_000);
        assert_eq!(clock.monotonic(at(1000)), at(1000));
        assert_eq!(clock.monotonic(at(3000)), at(2000));
    }

    #[test]
    fn a_jump_moves_the_wall_clock_only() {
        let mut clock = Clock::new(0, Duration::ZERO);
        let before = clock.wall(at(500));
        clock.jump(-10_000_000);
        assert_eq!(clock.monotonic(at(500)), at(500));
        assert_eq!(before - clock.wall(at(500)), Duration::from_secs(10));
    }
}
