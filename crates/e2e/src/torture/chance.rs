//! What a seed decides.

use std::time::Duration;

/// Numbers from a seed: SplitMix64.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// Other numbers of the same seed, for something that runs beside.
    pub fn branch(&mut self) -> Chance {
        Chance(self.number())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end.max(1) as u64) as usize
    }

    /// Whether something happens that happens in so many of a hundred cases.
    pub fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }

    /// One of these.
    pub fn one_of<'a, T>(&mut self, these: &'a [T]) -> &'a T {
        &these[self.below(these.len())]
    }

    /// A time between two.
    pub fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let span = to.saturating_sub(from).as_millis() as usize;
        from + Duration::from_millis(self.below(span + 1) as u64)
    }

    /// Puts these into another order.
    pub fn shuffle<T>(&mut self, these: &mut [T]) {
        for at in (1..these.len()).rev() {
            these.swap(at, self.below(at + 1));
        }
    }
}
