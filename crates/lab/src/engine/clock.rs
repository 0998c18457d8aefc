//! The clocks of one process: what it reads at a moment of true time.
//!
//! There are two, as on any machine. The *monotonic* clock never goes back and may run fast or slow. The
//! *wall* clock runs at the same rate, but may be set wrong, and may be set while the process runs. A change of
//! rate takes effect from one moment on and does not change earlier readings.

use std::time::Duration;

use tenure_replica::Moment;

const MILLION: i128 = 1_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct SimClock {
    /// How much faster than true time it runs, in millionths.
    ppm: i64,
    /// When this rate began, in true time, and the reading at that moment.
    since: Moment,
    read: Moment,
    /// How far the wall clock is ahead of the monotonic one, in microseconds.
    ahead_us: i64,
}

impl SimClock {
    /// A clock that runs fast by `ppm` millionths and whose wall clock is `ahead`.
    pub fn new(ppm: i64, ahead: Duration) -> SimClock {
        SimClock { ppm, ahead_us: ahead.as_micros() as i64, ..SimClock::default() }
    }

    /// The reading of the monotonic clock.
    pub fn monotonic(&self, now: Moment) -> Moment {
        let elapsed = now.since(self.since).as_micros() as i128;
        let local = elapsed + elapsed * i128::from(self.ppm) / MILLION;
        self.read + Duration::from_micros(local.max(0) as u64)
    }

    /// When the monotonic clock will show `local`; now, if that has passed.
    pub fn when(&self, local: Moment, now: Moment) -> Moment {
        self.moment(local).max(now)
    }

    /// When the monotonic clock shows, or showed, `local`, if its rate has not changed since.
    pub fn moment(&self, local: Moment) -> Moment {
        let left = local.since(self.read).as_micros() as i128;
        let elapsed = left * MILLION / (MILLION + i128::from(self.ppm)).max(1);
        // Rounded up: a process that is woken a moment early has nothing to do.
        self.since + Duration::from_micros(elapsed.max(0) as u64 + 1)
    }

    /// The reading of the wall clock, as time since an epoch that all processes share.
    pub fn wall(&self, now: Moment) -> Duration {
        let monotonic = self.monotonic(now).since_start().as_micros() as i128;
        Duration::from_micros((LONG_AGO_US + monotonic + i128::from(self.ahead_us)).max(0) as u64)
    }

    /// How fast it runs, in millionths.
    pub fn ppm(&self) -> i64 {
        self.ppm
    }

    /// Changes the rate from now on.
    pub fn drift(&mut self, now: Moment, ppm: i64) {
        self.read = self.monotonic(now);
        self.since = now;
        self.ppm = ppm;
    }

    /// Sets the wall clock ahead, or back.
    pub fn jump(&mut self, by_us: i64) {
        self.ahead_us += by_us;
    }
}

/// The time of day at which a run begins, so that a wall clock can be set back.
const LONG_AGO_US: i128 = 86_400 * MILLION;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ms;

    fn at(millis: u64) -> Moment {
        Moment::after_start(ms(millis))
    }

    #[test]
    fn clock_that_runs_fast_reads_more_and_wakes_earlier() {
        let clock = SimClock::new(100_000, Duration::ZERO);
        assert_eq!(clock.monotonic(at(1000)), at(1100));
        let when = clock.when(at(1100), at(0));
        assert!(when >= at(1000) && when <= at(1001));
    }

    #[test]
    fn clock_drift_does_not_change_earlier_readings() {
        let mut clock = SimClock::new(0, Duration::ZERO);
        clock.drift(at(1000), -500_000);
        assert_eq!(clock.monotonic(at(1000)), at(1000));
        assert_eq!(clock.monotonic(at(3000)), at(2000));
    }

    #[test]
    fn clock_jump_moves_only_the_wall_clock() {
        let mut clock = SimClock::new(0, Duration::ZERO);
        let before = clock.wall(at(500));
        clock.jump(-10_000_000);
        assert_eq!(clock.monotonic(at(500)), at(500));
        assert_eq!(before - clock.wall(at(500)), Duration::from_secs(10));
    }
}
