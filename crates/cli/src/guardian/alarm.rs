//! A timer on the clock that goes on while the machine is suspended, as a file to poll.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tenure::clock::Moment;

/// A timer.
#[derive(Debug)]
pub(super) struct Alarm(OwnedFd);

impl Alarm {
    pub(super) fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Alarm(timerfd_create(TimerfdClockId::Boottime, flags)?))
    }

    /// Rings at that moment and not before; never, if there is none. What it rang for before is
    /// forgotten.
    pub(super) fn set(&self, moment: Option<Moment>) -> io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = moment.map_or(zero, |moment| {
            let time = moment.since_start();
            Timespec {
                tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                // Zero would disarm it.
                tv_nsec: i64::from(time.subsec_nanos()).max(1),
            }
        });
        let once = Itimerspec { it_interval: zero, it_value: at };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
