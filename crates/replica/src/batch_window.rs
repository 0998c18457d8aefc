//! How long to wait for company before a batch goes.
//!
//! Everything that travels costs its round whatever its size: a few messages, a flush on every
//! disk. Clients that were answered together ask again together, but the first request arrives a
//! little before the others and would take the next round alone, and the others would wait for that one to
//! end. So a batch waits, very briefly, for as many as came the last times: never longer than a round takes, which is
//! what a request that comes too late would lose. A client that is alone does not wait.

use std::time::Duration;

use crate::Moment;

/// The longest wait for others, however long a round takes.
const GATHER_MAX: Duration = Duration::from_millis(1);

/// Remembers how many came together lately, and how long their rounds took.
#[derive(Debug, Default)]
pub(crate) struct BatchWindow {
    expected: usize,
    round: Duration,
}

impl BatchWindow {
    /// Whether `count` are enough to go, the first of which has waited since `since`.
    pub(crate) fn is_complete(&self, count: usize, since: Moment, now: Moment) -> bool {
        // All of them: to go with three quarters left the others a round of their own each time, and
        // took a fifth more entries.
        count >= self.expected || now.since(since) >= self.patience()
    }

    /// When the first has waited long enough, whatever else comes.
    pub(crate) fn ends_at(&self, since: Moment) -> Moment {
        since + self.patience()
    }

    /// So many went together. More are expected at once, fewer by and by.
    pub(crate) fn went(&mut self, count: usize) {
        self.expected = count.max((self.expected + count) / 2);
    }

    /// What had gone is done, after so long.
    pub(crate) fn came_back(&mut self, after: Duration) {
        self.round = (3 * self.round + after) / 4;
    }

    fn patience(&self) -> Duration {
        self.round.min(GATHER_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds take as long as a batch waits at the most.
    fn slow() -> BatchWindow {
        let mut batch_window = BatchWindow::default();
        (0..16).for_each(|_| batch_window.came_back(2 * GATHER_MAX));
        batch_window
    }

    #[test]
    fn batch_window_closes_for_a_lone_client() {
        let mut batch_window = slow();
        batch_window.went(64);
        let mut waits = 0;
        while !batch_window.is_complete(1, Moment::ZERO, Moment::ZERO) {
            batch_window.went(1);
            waits += 1;
        }
        assert_eq!(waits, 6);
        assert!(batch_window.is_complete(1, Moment::ZERO, Moment::ZERO));
    }

    #[test]
    fn batch_window_does_not_wait_long_for_the_last_few() {
        let mut batch_window = slow();
        batch_window.went(100);
        assert!(!batch_window.is_complete(99, Moment::ZERO, Moment::ZERO));
        assert!(batch_window.is_complete(100, Moment::ZERO, Moment::ZERO));
        assert!(batch_window.is_complete(1, Moment::ZERO, Moment::ZERO + GATHER_MAX));
        assert_eq!(batch_window.ends_at(Moment::ZERO), Moment::ZERO + GATHER_MAX);
    }

    #[test]
    fn batch_window_is_no_longer_than_a_round() {
        let round = GATHER_MAX / 10;
        let mut batch_window = BatchWindow::default();
        batch_window.went(2);
        assert!(
            batch_window.is_complete(1, Moment::ZERO, Moment::ZERO),
            "nothing is known of rounds yet"
        );
        (0..16).for_each(|_| batch_window.came_back(round));
        assert!(!batch_window.is_complete(1, Moment::ZERO, Moment::ZERO));
        assert!(batch_window.is_complete(1, Moment::ZERO, Moment::ZERO + round));
    }
}
