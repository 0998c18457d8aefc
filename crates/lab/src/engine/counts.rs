//! How often each fault struck and each invariant was judged. A fault that was switched on and never
//! struck, or an invariant that nothing was held against, proves nothing: such a run fails.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    pub fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    pub fn add(&mut self, other: &Counts) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    /// Panics if one of these was never counted.
    pub fn assert_all(&self, expected: impl IntoIterator<Item = &'static str>) {
        let never: Vec<_> = expected.into_iter().filter(|what| self.of(what) == 0).collect();
        assert!(never.is_empty(), "never happened in the whole run: {never:?}\n{self:?}");
    }
}
