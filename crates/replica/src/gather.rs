//! How long to wait for company before a batch goes.
//!
//! Everything that travels costs its round whatever its size: a few messages, a flush on every
//! disk. Clients that were answered together ask again together, but the first of them arrives a
//! little before the others and would take the next round alone. So a batch waits, very briefly,
//! for as many as came the last times. Where few come together nobody waits: there is little to save,
//! and they would notice.

use std::time::Duration;

use crate::moment::Moment;

/// The longest wait for others.
const GATHER_MAX: Duration = Duration::from_millis(1);

/// From so many on it is worth waiting for them.
const GATHER_MIN: usize = 8;

/// Remembers how many came together lately.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    expected: usize,
}

impl Gather {
    /// Whether `count` are enough to go, the first of which has waited since `since`.
    pub(crate) fn is_complete(&self, count: usize, since: Moment, now: Moment) -> bool {
        // All of them: to go with three quarters left the others a round of their own each time, and
        // took a fifth more entries.
        let expected = self.expected;
        expected < GATHER_MIN || count >= expected || now.since(since) >= GATHER_MAX
    }

    /// When the first has waited long enough, whoever else comes.
    pub(crate) fn ends_at(since: Moment) -> Moment {
        since + GATHER_MAX
    }

    /// So many went together. More are expected at once, fewer by and by.
    pub(crate) fn went(&mut self, count: usize) {
        self.expected = count.max((self.expected + count) / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lonely_client_soon_stops_waiting() {
        let mut gather = Gather::default();
        gather.went(64);
        let mut waits = 0;
        while !gather.is_complete(1, Moment::ZERO, Moment::ZERO) {
            gather.went(1);
            waits += 1;
        }
        assert_eq!(waits, 4);
        assert!(gather.is_complete(1, Moment::ZERO, Moment::ZERO));
    }

    #[test]
    fn a_few_never_wait() {
        let mut gather = Gather::default();
        gather.went(GATHER_MIN - 1);
        assert!(gather.is_complete(1, Moment::ZERO, Moment::ZERO));
    }

    #[test]
    fn nobody_waits_for_stragglers_for_long() {
        let mut gather = Gather::default();
        gather.went(100);
        assert!(!gather.is_complete(99, Moment::ZERO, Moment::ZERO));
        assert!(gather.is_complete(100, Moment::ZERO, Moment::ZERO));
        assert!(gather.is_complete(1, Moment::ZERO, Gather::ends_at(Moment::ZERO)));
    }
}
