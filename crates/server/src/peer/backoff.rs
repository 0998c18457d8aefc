//! How long to wait before the next call: longer each time, and never in step with others.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Waits that double from 10 ms to 1 s, each shortened by up to a half at random.
#[derive(Debug)]
pub(super) struct Backoff {
    wait: Duration,
    chance: RandomState,
    draws: u64,
}

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff { wait: WAIT_MIN, chance: RandomState::new(), draws: 0 }
    }

    /// Starts over after a success.
    pub(super) fn reset(&mut self) {
        self.wait = WAIT_MIN;
    }

    /// The next wait.
    pub(super) fn next(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * 2).min(WAIT_MAX);
        self.draws += 1;
        let share = self.chance.hash_one(self.draws) % 1000;
        wait / 2 + wait / 2 * share as u32 / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_limit_and_start_over() {
        let mut backoff = Backoff::new();
        let waits: Vec<Duration> = (0..20).map(|_| backoff.next()).collect();
        assert!(waits[0] >= WAIT_MIN / 2 && waits[0] <= WAIT_MIN);
        assert!(waits[19] >= WAIT_MAX / 2 && waits[19] <= WAIT_MAX);
        backoff.reset();
        assert!(backoff.next() <= WAIT_MIN);
    }
}
