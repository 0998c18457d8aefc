//! How often each fault struck and each invariant was judged. A fault that was switched on and never
//! struck, or an invariant that nothing was held against, proves nothing: such a run fails.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    by_name: BTreeMap<&'static str, u64>,
    blows: u64,
}

impl Counts {
    pub fn count(&mut self, what: &'static str) {
        *self.by_name.entry(what).or_default() += 1;
    }

    /// A blow of a script fell.
    pub fn blow(&mut self, what: &'static str) {
        self.blows += 1;
        self.count(what);
    }

    /// How many blows fell.
    pub fn blows(&self) -> u64 {
        self.blows
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.by_name.iter().map(|(what, count)| (*what, *count))
    }

    pub fn of(&self, what: &str) -> u64 {
        self.by_name.get(what).copied().unwrap_or(0)
    }

    pub fn add(&mut self, other: &Counts) {
        for (what, count) in &other.by_name {
            *self.by_name.entry(what).or_default() += count;
        }
    }

    /// Panics if one of these was never counted.
    pub fn assert_all(&self, expected: impl IntoIterator<Item = &'static str>) {
        let never: Vec<_> = expected.into_iter().filter(|what| self.of(what) == 0).collect();
        assert!(never.is_empty(), "never happened in the whole run: {never:?}\n{self:?}");
    }
}
