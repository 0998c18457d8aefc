//! The clock that a holder counts on: one that goes on while the machine is suspended.
//!
//! [`std::time::Instant`] stands still in suspend on Linux. A holder that counted on it would wake
//! up after an hour, believe that a moment had passed, and act beside its successor. So belief is
//! counted in [`Moment`]s of `CLOCK_BOOTTIME`, and the timer that ends it runs on that clock too.
//!
//! Code that needs the time is handed a [`Clock`], mostly as part of a [`Host`](crate::host::Host).

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

pub use tenure_api::Moment;

/// Reads the time and completes futures at a moment.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time. Never goes back.
    fn now(&self) -> Moment;

    /// Is done at that moment, or as soon as possible after it.
    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The clock of the machine since it was booted, time in suspend included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Boottime;

impl Clock for Boottime {
    fn now(&self) -> Moment {
        let time = rustix::time::clock_gettime(CLOCK);
        let secs = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Moment::after_start(Duration::new(secs, nanos))
    }

    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            while self.now() < moment {
                alarm(moment, moment.since(self.now())).await;
            }
        })
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// Elsewhere this clock counts suspends itself, or nothing does.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// How long to sleep at most where no timer counts suspends.
const NAP_MAX: Duration = Duration::from_millis(200);

/// A kernel timer on `CLOCK_BOOTTIME`: it rings right after a resume that came too late.
#[cfg(any(target_os = "linux", target_os = "android"))]
async fn alarm(moment: Moment, remaining: Duration) {
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    let ring = || -> std::io::Result<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = Timespec {
            tv_sec: i64::try_from(moment.since_start().as_secs()).unwrap_or(i64::MAX),
            tv_nsec: moment.since_start().subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: never, it_value: at };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &once)?;
        // Deprecated for types that could change their descriptor; this one owns a single one.
        #[allow(deprecated)]
        tokio::io::unix::AsyncFd::new(timer)
    };
    match ring() {
        Ok(timer) => {
            let _ = timer.readable().await;
        }
        // No file descriptors left, say. Short naps are late by no more than one.
        Err(_) => tokio::time::sleep(remaining.min(NAP_MAX)).await,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
async fn alarm(_: Moment, remaining: Duration) {
    tokio::time::sleep(remaining.min(NAP_MAX)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clock_wakes_no_sleeper_early() {
        let clock = Boottime;
        let until = clock.now() + Duration::from_millis(20);
        clock.sleep_until(until).await;
        assert!(clock.now() >= until);
    }

    #[tokio::test]
    async fn clock_does_not_wait_for_a_moment_that_has_passed() {
        let clock = Boottime;
        let slept = clock.sleep_until(clock.now());
        tokio::time::timeout(Duration::from_secs(5), slept).await.expect("at once");
    }
}
