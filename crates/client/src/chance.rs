//! Random pauses: so that ten thousand sessions do not come back in the same millisecond.

use std::time::Duration;

/// A stream of random numbers. Good for spreading pauses; not for secrets.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The same for the same seed.
    pub(crate) fn seeded(seed: u64) -> Chance {
        Chance(seed)
    }

    /// Some number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Any part of a pause.
    pub(crate) fn part_of(&mut self, pause: Duration) -> Duration {
        pause.mul_f64(self.part())
    }

    /// Between a half and the whole of a pause.
    pub(crate) fn spread(&mut self, pause: Duration) -> Duration {
        pause.mul_f64(0.5 + self.part() / 2.0)
    }

    /// Between the whole of a pause and `factor` times it.
    pub(crate) fn stretch(&mut self, pause: Duration, factor: f64) -> Duration {
        pause.mul_f64(1.0 + self.part() * (factor - 1.0).max(0.0))
    }

    /// From 0 to 1.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Pauses between attempts that fail in a row: none before the second, then longer and longer.
#[derive(Debug)]
pub(crate) struct Backoff {
    chance: Chance,
    next: Option<Duration>,
    first: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new(chance: Chance, first: Duration, longest: Duration) -> Backoff {
        Backoff { chance, next: None, first, longest }
    }

    /// The pause before the next attempt.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next.map_or(Duration::ZERO, |pause| self.chance.spread(pause));
        let doubled = self.next.map_or(self.first, |pause| pause * 2);
        self.next = Some(doubled.min(self.longest));
        pause
    }

    /// An attempt worked.
    pub(crate) fn reset(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_follows_the_first_failure_at_once_and_has_a_limit() {
        let (first, longest) = (Duration::from_millis(20), Duration::from_millis(500));
        let mut backoff = Backoff::new(Chance::seeded(7), first, longest);
        assert_eq!(backoff.pause(), Duration::ZERO);
        let pauses: Vec<_> = (0..20).map(|_| backoff.pause()).collect();
        assert!(pauses.iter().all(|pause| *pause >= first / 2 && *pause <= longest));
        assert!(pauses.iter().any(|pause| *pause > longest / 2 - Duration::from_millis(1)));
        backoff.reset();
        assert_eq!(backoff.pause(), Duration::ZERO);
    }

    #[test]
    fn backoff_pauses_differ() {
        let mut chance = Chance::seeded(7);
        let pause = Duration::from_secs(1);
        let spread: std::collections::BTreeSet<_> = (0..50).map(|_| chance.spread(pause)).collect();
        assert!(spread.len() > 40);
        assert!(spread.iter().all(|spread| *spread >= pause / 2 && *spread <= pause));
        let stretched = chance.stretch(pause, 1.2);
        assert!(stretched >= pause && stretched <= pause.mul_f64(1.2));
    }
}
