//! One run: its clock, what may still be begun, and the tally of what was done.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use crate::connection::Fault;

/// Latencies beyond this are counted as this.
const LATENCY_MICROS_MAX: u64 = 600_000_000;

/// Kinds of errors that are told apart; the rest are counted together.
const ERROR_KINDS_MAX: usize = 32;

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// After so many operations.
    Operations(u64),
    /// After this long.
    For(Duration),
}

/// One run, shared by its clients.
pub(crate) struct Stage {
    measured_from: Instant,
    limit: Limit,
    tally: Mutex<Tally>,
}

/// What was done inside the measured time.
pub(crate) struct Tally {
    begun: u64,
    /// In microseconds, of what succeeded.
    pub(crate) latency: Histogram<u64>,
    /// By text.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) last_end: Option<Instant>,
    /// The process's CPU time when the measured time began.
    cpu_from: Option<Duration>,
}

/// Leave to begin one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It does not count yet.
    WarmUp,
    /// It counts.
    Measured,
}

impl Stage {
    /// A run that begins now.
    pub(crate) fn begin(warm_up: Duration, limit: Limit) -> Stage {
        let tally = Tally {
            begun: 0,
            latency: Histogram::new_with_bounds(1, LATENCY_MICROS_MAX, 3)
                .expect("bounds and precision are in range"),
            errors: BTreeMap::new(),
            last_end: None,
            cpu_from: None,
        };
        Stage { measured_from: Instant::now() + warm_up, limit, tally: Mutex::new(tally) }
    }

    /// Asks to begin an operation now; nothing if the run is over.
    pub(crate) fn leave(&self, now: Instant) -> Option<Leave> {
        if now < self.measured_from {
            return Some(Leave::WarmUp);
        }
        let mut tally = self.tally();
        tally.cpu_from.get_or_insert_with(cpu_time);
        let over = match self.limit {
            Limit::Operations(total) => tally.begun >= total,
            Limit::For(time) => now >= self.measured_from + time,
        };
        if over {
            return None;
        }
        tally.begun += 1;
        Some(Leave::Measured)
    }

    /// Tallies an operation that was begun with `leave`.
    pub(crate) fn done(&self, leave: Leave, latency: Duration, result: Result<(), Fault>) {
        if leave == Leave::WarmUp {
            return;
        }
        let mut tally = self.tally();
        tally.last_end = Some(Instant::now());
        match result {
            Ok(()) => {
                let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
                tally.latency.saturating_record(micros.max(1));
            }
            Err(fault) => tally.count_error(fault.text()),
        }
    }

    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From the end of the warm-up to the end of the last operation.
    pub(crate) fn measured(&self) -> Duration {
        let end = self.tally().last_end;
        end.map_or(Duration::ZERO, |end| end.saturating_duration_since(self.measured_from))
    }

    pub(crate) fn measured_from(&self) -> Instant {
        self.measured_from
    }

    /// The process's CPU time inside the measured time.
    pub(crate) fn cpu(&self) -> Duration {
        self.tally().cpu_from.map_or(Duration::ZERO, |from| cpu_time().saturating_sub(from))
    }
}

impl Tally {
    pub(crate) fn count_error(&mut self, text: &str) {
        let known = self.errors.contains_key(text) || self.errors.len() < ERROR_KINDS_MAX;
        let text = if known { text } else { "others" };
        *self.errors.entry(text.to_owned()).or_default() += 1;
    }
}

/// User and system time of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_does_not_count() {
        let stage = Stage::begin(Duration::from_secs(60), Limit::Operations(1));
        assert_eq!(stage.leave(Instant::now()), Some(Leave::WarmUp));
        stage.done(Leave::WarmUp, Duration::from_millis(1), Ok(()));
        assert_eq!(stage.tally().latency.len(), 0);
    }

    #[test]
    fn a_total_is_not_exceeded() {
        let stage = Stage::begin(Duration::ZERO, Limit::Operations(2));
        let now = Instant::now();
        assert_eq!(stage.leave(now), Some(Leave::Measured));
        assert_eq!(stage.leave(now), Some(Leave::Measured));
        assert_eq!(stage.leave(now), None);
        stage.done(Leave::Measured, Duration::from_millis(3), Ok(()));
        stage.done(Leave::Measured, Duration::ZERO, Err(Fault::Status("no".into())));
        assert_eq!(stage.tally().latency.len(), 1);
        assert_eq!(stage.tally().errors["no"], 1);
    }

    #[test]
    fn time_runs_out() {
        let stage = Stage::begin(Duration::ZERO, Limit::For(Duration::from_secs(1)));
        assert!(stage.leave(stage.measured_from).is_some());
        assert!(stage.leave(stage.measured_from + Duration::from_secs(1)).is_none());
    }
}
