//! When the core loop is to be woken, whatever else happens.
//!
//! The runtime's own timers count whole milliseconds. A batch that waits for company waits for less than one, so what is
//! nearer than that is left to the kernel's timer.

use std::{
    pin::Pin,
    time::{Duration, Instant},
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::{
    net::unix::pipe::Receiver,
    time::{Sleep, sleep},
};

/// What is farther than this does not mind a millisecond.
const FINE_MAX: Duration = Duration::from_millis(1);
/// The least that the kernel's timer can be set to: zero would stop it.
const FINE_MIN: Duration = Duration::from_micros(1);

pub(super) struct WakeTimer {
    coarse: Pin<Box<Sleep>>,
    /// The kernel's timer, which is read like a pipe. None if the kernel has none for us.
    fine: Option<Receiver>,
    /// When the kernel's timer rings, if it is set.
    fine_at: Option<Instant>,
}

impl WakeTimer {
    /// A bell that rings at once.
    pub(super) fn new() -> WakeTimer {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).ok();
        WakeTimer {
            coarse: Box::pin(sleep(Duration::ZERO)),
            fine: timer.and_then(|timer| Receiver::from_owned_fd_unchecked(timer).ok()),
            fine_at: None,
        }
    }

    /// Rings at this time, and not at the one that was set before.
    pub(super) fn set(&mut self, at: Instant) {
        let coarse = tokio::time::Instant::from_std(at);
        if self.coarse.deadline() != coarse {
            self.coarse.as_mut().reset(coarse);
        }
        if self.fine_at == Some(at) {
            return;
        }
        let Some(fine) = &self.fine else { return };
        let away = at.saturating_duration_since(Instant::now());
        if away < FINE_MAX {
            let spec = once(away.max(FINE_MIN));
            let set = timerfd_settime(fine, TimerfdTimerFlags::empty(), &spec);
            self.fine_at = set.is_ok().then_some(at);
        } else if self.fine_at.take().is_some() {
            let _ = timerfd_settime(fine, TimerfdTimerFlags::empty(), &once(Duration::ZERO));
        }
    }

    /// Waits until the time has come.
    pub(super) async fn rings(&mut self) {
        let WakeTimer { coarse, fine, fine_at } = self;
        let Some(fine) = fine.as_ref().filter(|_| fine_at.is_some()) else {
            return coarse.await;
        };
        tokio::select! {
            () = coarse => {}
            () = read_one(fine) => {}
        }
        *fine_at = None;
    }
}

/// Waits until the timer has rung, and takes that in.
async fn read_one(timer: &Receiver) {
    let mut count = [0; 8];
    while timer.readable().await.is_ok() {
        if timer.try_read(&mut count).is_ok() {
            // Once more, and in vain: only then the runtime waits for it anew.
            let _ = timer.try_read(&mut count);
            return;
        }
    }
}

fn once(after: Duration) -> Itimerspec {
    let after =
        Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) };
    Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: after }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Duration = Duration::from_micros(300);
    const FAR: Duration = Duration::from_millis(30);

    #[tokio::test]
    async fn it_rings_when_the_time_has_come_and_not_before() {
        let mut wake = WakeTimer::new();
        for away in [Duration::ZERO, NEAR, FAR, NEAR, NEAR] {
            let at = Instant::now() + away;
            wake.set(at);
            wake.rings().await;
            assert!(Instant::now() >= at, "{away:?}");
        }
    }

    #[tokio::test]
    async fn it_forgets_what_was_set_before() {
        let mut wake = WakeTimer::new();
        wake.set(Instant::now() + NEAR);
        let at = Instant::now() + FAR;
        wake.set(at);
        wake.rings().await;
        assert!(Instant::now() >= at);
        // Also if the first time had come before it was set anew.
        wake.set(Instant::now() + NEAR);
        tokio::time::sleep(2 * FINE_MAX).await;
        let at = Instant::now() + FAR;
        wake.set(at);
        wake.rings().await;
        assert!(Instant::now() >= at);
    }
}
