//! How often each fault was injected and each invariant was checked. A run in which an enabled fault had no
//! effect, or in which an invariant was never checked, proves nothing and fails.

use std::fmt;

/// Few names, counted very often: a list that is searched from its start is faster than any map.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RunCounts {
    by_name: Vec<(&'static str, u64)>,
    faults_injected: u64,
}

impl RunCounts {
    pub fn count(&mut self, what: &'static str) {
        self.count_many(what, 1);
    }

    fn count_many(&mut self, what: &'static str, more: u64) {
        let same = |known: &&mut (&'static str, u64)| std::ptr::eq(known.0, what);
        if let Some((_, count)) = self.by_name.iter_mut().find(same) {
            *count += more;
        } else if let Some((_, count)) = self.by_name.iter_mut().find(|known| known.0 == what) {
            *count += more;
        } else {
            self.by_name.push((what, more));
        }
    }

    /// Counts a fault of a script.
    pub fn fault(&mut self) {
        self.faults_injected += 1;
    }

    /// How many faults of a script were injected.
    pub fn faults_injected(&self) -> u64 {
        self.faults_injected
    }

    /// In the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let mut sorted = self.by_name.clone();
        sorted.sort_unstable();
        sorted.into_iter()
    }

    pub fn of(&self, what: &str) -> u64 {
        self.by_name.iter().find(|(name, _)| *name == what).map_or(0, |(_, count)| *count)
    }

    pub fn add(&mut self, other: &RunCounts) {
        other.by_name.iter().for_each(|(what, count)| self.count_many(what, *count));
        self.faults_injected += other.faults_injected;
    }

    /// Those of `expected` that were never counted.
    pub fn missing(&self, expected: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
        expected.into_iter().filter(|what| self.of(what) == 0).collect()
    }

    /// Panics if one of `expected` was never counted.
    pub fn assert_all(&self, expected: impl IntoIterator<Item = &'static str>) {
        let never = self.missing(expected);
        assert!(never.is_empty(), "never happened in the whole run: {never:?}\n{self:?}");
    }
}

impl fmt::Debug for RunCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
