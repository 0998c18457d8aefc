//! From the faults of a failed run to the few that matter.

use std::time::Duration;

use super::FaultScript;

/// Finds a short script that still fails: leaves out ever smaller parts (delta debugging), then halves the
/// durations of the remaining faults. `fails` plays a script; it is called at most `limit` times.
pub fn shrink(
    script: &FaultScript,
    limit: usize,
    mut fails: impl FnMut(&FaultScript) -> bool,
) -> FaultScript {
    let mut best = script.clone();
    let mut asked = 0;
    let mut ask = |script: &FaultScript| {
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

/// Durations shorter than this are not halved.
const SHORTEST: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{Action, LinkFault, ScriptStep};

    fn script(count: u64) -> FaultScript {
        let step = |n| ScriptStep {
            at: Duration::from_secs(n),
            action: Action::Network(LinkFault::Lose(n % 100)),
            lasts: Some(Duration::from_secs(8)),
        };
        FaultScript { steps: (0..count).map(step).collect() }
    }

    #[test]
    fn shrink_keeps_only_the_steps_that_matter() {
        let needs = |script: &FaultScript| {
            let has = |n| {
                script.steps.iter().any(|step| step.action == Action::Network(LinkFault::Lose(n)))
            };
            has(3) && has(41) && has(77)
        };
        let short = shrink(&script(100), 1000, needs);
        let left: Vec<u64> = short.steps.iter().map(|step| step.at.as_secs()).collect();
        assert_eq!(left, [3, 41, 77]);
        assert!(short.steps.iter().all(|step| step.lasts.is_some_and(|lasts| lasts <= SHORTEST)));
    }

    #[test]
    fn shrink_keeps_the_link_that_matters() {
        let text = "at 1s delay m1 -> m2 by 40ms..60ms for 8s\nat 1s lose m2 -> m1 30% for 8s\n\
                    at 2s reset m2 -> m1\nat 2s disk m2 slows by 30ms..80ms for 8s\n";
        let script: FaultScript = text.parse().unwrap();
        let matters = script.steps[1].action.clone();
        let needs = |script: &FaultScript| script.steps.iter().any(|step| step.action == matters);
        let short = shrink(&script, 100, needs).to_string();
        assert_eq!(short, "at 1s lose m2 -> m1 30% for 15ms\n");
    }

    #[test]
    fn shrink_stops_at_its_limit_of_tries() {
        let mut asked = 0;
        let short = shrink(&script(50), 7, |_| {
            asked += 1;
            asked % 3 == 0
        });
        assert_eq!(asked, 7);
        assert!(short.steps.len() < 50);
    }

    #[test]
    fn shrink_of_a_failure_without_faults_leaves_no_step() {
        assert!(shrink(&script(20), 1000, |_| true).steps.is_empty());
    }
}
