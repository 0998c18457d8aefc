//! From the many blows of a run that failed to the few that matter.

use std::time::Duration;

use super::Script;

/// Finds a short script that still fails, by leaving out ever smaller parts (delta debugging) and then
/// letting what is left last half as long. `fails` plays a script; it is asked at most `limit` times.
pub fn shrink(script: &Script, limit: usize, mut fails: impl FnMut(&Script) -> bool) -> Script {
    let mut best = script.clone();
    let mut asked = 0;
    let mut ask = |script: &Script| {
        asked += 1;
        asked <= limit && fails(script)
    };
    let mut part = best.steps.len().div_ceil(2);
    while part > 0 {
        let mut from = 0;
        let mut less = false;
        while from < best.steps.len() {
            let mut shorter = best.clone();
            shorter.steps.drain(from..(from + part).min(shorter.steps.len()));
            if ask(&shorter) {
                best = shorter;
                less = true;
            } else {
                from += part;
            }
        }
        if !less || part > 1 {
            part /= 2;
        }
    }
    for step in 0..best.steps.len() {
        while let Some(lasts) = best.steps[step].lasts.filter(|lasts| *lasts > SHORTEST) {
            let mut shorter = best.clone();
            let half = Duration::from_millis(lasts.as_millis() as u64 / 2);
            shorter.steps[step].lasts = Some(half);
            if !ask(&shorter) {
                break;
            }
            best = shorter;
        }
    }
    best
}

/// It is not worth finding out what lasts shorter than this.
const SHORTEST: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{Action, Step};

    fn script(count: u64) -> Script {
        let step = |n| Step {
            at: Duration::from_secs(n),
            action: Action::Lose(n % 100),
            lasts: Some(Duration::from_secs(8)),
        };
        Script { steps: (0..count).map(step).collect() }
    }

    #[test]
    fn only_what_matters_is_left() {
        let needs = |script: &Script| {
            let has = |n| script.steps.iter().any(|step| step.action == Action::Lose(n));
            has(3) && has(41) && has(77)
        };
        let short = shrink(&script(100), 1000, needs);
        let left: Vec<u64> = short.steps.iter().map(|step| step.at.as_secs()).collect();
        assert_eq!(left, [3, 41, 77]);
        assert!(short.steps.iter().all(|step| step.lasts.is_some_and(|lasts| lasts <= SHORTEST)));
    }

    #[test]
    fn it_ends_when_it_has_asked_often_enough() {
        let mut asked = 0;
        let short = shrink(&script(50), 7, |_| {
            asked += 1;
            asked % 3 == 0
        });
        assert_eq!(asked, 7);
        assert!(short.steps.len() < 50);
    }

    #[test]
    fn a_failure_that_needs_no_blow_leaves_none() {
        assert!(shrink(&script(20), 1000, |_| true).steps.is_empty());
    }
}
