//! How many cases, and for how long.

use std::{
    env,
    time::{Duration, Instant},
};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestCaseError, TestError, TestRunner},
};

/// Cases between two looks at the clock.
const ROUND_CASES: u32 = 64;
/// Attempts to show a smaller value.
const SHRINKS_MAX: u32 = 2000;

/// Holds a promise against many values, and shows the smallest that breaks it.
///
/// So many cases, or as many as `PROPTEST_CASES` says; but no longer than `TENURE_FUZZ_SECONDS`, if that
/// is set. A value that breaks the promise belongs into a test of its own: nothing is written down here.
pub fn hold<S: Strategy>(
    cases: u32,
    values: S,
    promise: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let mut left =
        number("PROPTEST_CASES").map_or(cases, |cases| cases.try_into().unwrap_or(u32::MAX));
    let limit = number("TENURE_FUZZ_SECONDS").map(Duration::from_secs);
    let begun = Instant::now();
    while left > 0 && limit.is_none_or(|limit| begun.elapsed() < limit) {
        let cases = left.min(ROUND_CASES);
        left -= cases;
        let config = Config {
            cases,
            max_shrink_iters: SHRINKS_MAX,
            failure_persistence: None,
            ..Config::default()
        };
        match TestRunner::new(config).run(&values, &promise) {
            Ok(()) => {}
            Err(TestError::Fail(why, value)) => panic!("{why}\nthe smallest such value: {value:?}"),
            Err(TestError::Abort(why)) => panic!("nothing could be tried: {why}"),
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[should_panic(expected = "the smallest such value: 100")]
    fn a_broken_promise_is_shown_at_its_smallest() {
        hold(1000, 0..10_000u32, |number| {
            prop_assert!(number < 100);
            Ok(())
        });
    }

    #[test]
    #[should_panic(expected = "the smallest such value: 7")]
    fn a_panic_breaks_every_promise() {
        hold(1000, 0..1000u32, |number| {
            assert!(number < 7);
            Ok(())
        });
    }
}
