//! A watchdog device: it resets the machine when nothing was written to it for its timeout.
//!
//! It is the last resort against what no process can do anything about: guardians that are not
//! scheduled any more, a kernel that hangs, processes that cannot be killed. It is fed only while the
//! lease is sure to outlast its timeout, so whatever happens next, the machine is reset before another process may
//! lead.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use tenure::clock::Moment;

use super::words::WatchdogCharge;

/// How often it is fed within its timeout.
const FEEDS_PER_TIMEOUT: u32 = 4;

/// A device that was opened, and so armed.
#[derive(Debug)]
pub(super) struct Watchdog {
    device: File,
    timeout: Duration,
    fed: Option<Moment>,
}

impl Watchdog {
    pub(super) fn arm(charge: &WatchdogCharge) -> io::Result<Watchdog> {
        let device = OpenOptions::new().write(true).open(&charge.device)?;
        Ok(Watchdog { device, timeout: Duration::from_millis(charge.timeout_ms), fed: None })
    }

    /// Feeds it if it is time, and if everything is sure to be well until it wants food again. Answers when
    /// to come again.
    pub(super) fn feed(&mut self, now: Moment, until: Option<Moment>) -> Moment {
        let pause = self.timeout / FEEDS_PER_TIMEOUT;
        let next = self.fed.map_or(now, |fed| fed + pause);
        if now < next {
            return next;
        }
        if until.is_none_or(|until| now + self.timeout <= until) {
            let _ = self.device.write_all(b".");
            self.fed = Some(now);
        }
        now + pause
    }

    /// All is well and over: it must not bite.
    pub(super) fn disarm(mut self) {
        // The letter that devices know as the wish to be closed without consequences.
        let _ = self.device.write_all(b"V");
    }
}

/// The timeout of a device, if the system tells it.
pub(crate) fn timeout(device: &Path) -> Option<Duration> {
    let name = device.file_name()?.to_str()?;
    // The first one has a second name without a number.
    let name = if name == "watchdog" { "watchdog0" } else { name };
    let text = std::fs::read_to_string(format!("/sys/class/watchdog/{name}/timeout")).ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::after_start(Duration::from_millis(ms))
    }

    #[test]
    fn watchdog_is_fed_only_while_the_lease_outlasts_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let charge = WatchdogCharge { device: file.path().into(), timeout_ms: 4_000 };
        let mut dog = Watchdog::arm(&charge).unwrap();
        let eaten = || std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(dog.feed(at(0), Some(at(9_900))), at(1_000));
        assert_eq!(dog.feed(at(400), Some(at(9_900))), at(1_000));
        assert_eq!(eaten(), ".");
        dog.feed(at(5_900), Some(at(9_900)));
        assert_eq!(eaten(), "..");
        // From here on it would bite after another process may lead.
        dog.feed(at(6_901), Some(at(9_900)));
        assert_eq!(eaten(), "..");
        dog.disarm();
        assert_eq!(eaten(), "..V");
    }
}
