//! How long to wait for company before a batch goes.
//!
//! Everything that travels costs its round whatever its size: a few messages, a flush on every
//! disk. Clients that were answered together ask again together, but the first of them arrives a
//! little before the others and would take the next round alone, and the others would wait for that one to
//! end. So a batch waits, very briefly, for as many as came the last times: never longer than a round takes, which is
//! what whoever comes too late would lose. A client that is alone waits for nobody.

use std::time::Duration;

use crate::moment::Moment;

/// The longest wait for others, however long a round takes.
const GATHER_MAX: Duration = Duration::from_millis(1);

/// Remembers how many came together lately, and how long their rounds took.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    expected: usize,
    round: Duration,
}

impl Gather {
    /// Whether `count` are enough to go, the first of which has waited since `since`.
    pub(crate) fn is_complete(&self, count: usize, since: Moment, now: Moment) -> bool {
        // All of them: to go with three quarters left the others a round of their own each time, and
        // took a fifth more entries.
        count >= self.expected || now.since(since) >= self.patience()
    }

    /// When the first has waited long enough, whoever else comes.
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
    fn slow() -> Gather {
        let mut gather = Gather::default();
        (0..16).for_each(|_| gather.came_back(2 * GATHER_MAX));
        gather
    }

    #[test]
    fn a_lonely_client_soon_stops_waiting() {
        let mut gather = slow();
        gather.went(64);
        let mut waits = 0;
        while !gather.is_complete(1, Moment::ZERO, Moment::ZERO) {
            gather.went(1);
            waits += 1;
        }
        assert_eq!(waits, 6);
        assert!(gather.is_complete(1, Moment::ZERO, Moment::ZERO));
    }

    #[test]
    fn nobody_waits_for_stragglers_for_long() {
        let mut gather = slow();
        gather.went(100);
        assert!(!gather.is_complete(99, Moment::ZERO, Moment::ZERO));
        assert!(gather.is_complete(100, Moment::ZERO, Moment::ZERO));
        assert!(gather.is_complete(1, Moment::ZERO, Moment::ZERO + GATHER_MAX));
        assert_eq!(gather.ends_at(Moment::ZERO), Moment::ZERO + GATHER_MAX);
    }

    #[test]
    fn nobody_waits_longer_than_a_round_takes() {
        let round = GATHER_MAX / 10;
        let mut gather = Gather::default();
        gather.went(2);
        assert!(
            gather.is_complete(1, Moment::ZERO, Moment::ZERO),
            "nothing is known of rounds yet"
        );
        (0..16).for_each(|_| gather.came_back(round));
        assert!(!gather.is_complete(1, Moment::ZERO, Moment::ZERO));
        assert!(gather.is_complete(1, Moment::ZERO, Moment::ZERO + round));
    }
}
