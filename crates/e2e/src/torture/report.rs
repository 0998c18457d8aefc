//! One page on all rounds.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
};

use super::{
    nemesis::{Fault, in_words},
    round::{LEADER_CHANGES_MIN, OPERATIONS_MIN, Outcome},
};
use crate::tools;

/// The page.
pub fn page(outcomes: &[Outcome]) -> String {
    page_of(&tools::built_from(), outcomes)
}

fn page_of(built: &str, outcomes: &[Outcome]) -> String {
    let mut page = format!("# Torture\n\nCommit {built}.\n\n");
    let good = outcomes.iter().filter(|outcome| outcome.good()).count();
    let took: u64 = outcomes.iter().map(|outcome| outcome.took.as_secs()).sum();
    let operations: usize = outcomes.iter().map(|outcome| outcome.operations).sum();
    let changes: usize = outcomes.iter().map(|outcome| outcome.leader_changes).sum();
    let totals = format!(
        "{} rounds in {} minutes, {good} of them good: {operations} operations, {changes} changes of the raft leader, \
         {} faults.",
        outcomes.len(),
        took.div_ceil(60),
        struck(outcomes).values().sum::<usize>(),
    );
    let _ = writeln!(page, "{totals}\n");
    let _ = writeln!(
        page,
        "| seed | members | on | seconds | operations | leaders | faults | result |"
    );
    let _ = writeln!(page, "|---|---|---|---|---|---|---|---|");
    for outcome in outcomes {
        let wrong: Vec<_> =
            outcome.checks.iter().filter(|check| !check.wrong.is_empty()).map(|c| c.name).collect();
        let result = if wrong.is_empty() {
            "good".to_owned()
        } else {
            format!("**not**: {}", wrong.join(", "))
        };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {} | {result} |",
            outcome.round.seed,
            outcome.round.members,
            outcome.wiring,
            outcome.took.as_secs(),
            outcome.operations,
            outcome.leader_changes,
            outcome.tally.struck.values().sum::<usize>(),
        );
    }
    enough(&mut page, outcomes);
    faults(&mut page, outcomes);
    together(&mut page, outcomes);
    checks(&mut page, outcomes);
    failures(&mut page, outcomes);
    page
}

/// What was asked of every round, and which ones needed longer for it, or never got there.
fn enough(page: &mut String, outcomes: &[Outcome]) {
    let _ = write!(
        page,
        "\nAsked of every round: {OPERATIONS_MIN} operations and {LEADER_CHANGES_MIN} changes of the raft leader."
    );
    for outcome in outcomes {
        let Outcome { operations, leader_changes, longer, .. } = outcome;
        let seed = outcome.round.seed;
        if *operations < OPERATIONS_MIN || *leader_changes < LEADER_CHANGES_MIN {
            let _ = write!(
                page,
                " **Seed {seed} did not get there**: {operations} operations and {leader_changes} changes, {} s longer \
                 than planned.",
                longer.as_secs()
            );
        } else if longer.as_secs() > 0 {
            let _ = write!(page, " Seed {seed} went on for {} s to get there.", longer.as_secs());
        }
    }
    let _ = writeln!(page);
}

/// How often each fault struck in all rounds.
pub fn struck(outcomes: &[Outcome]) -> BTreeMap<Fault, usize> {
    let mut all = BTreeMap::new();
    for (fault, count) in outcomes.iter().flat_map(|outcome| &outcome.tally.struck) {
        *all.entry(*fault).or_default() += count;
    }
    all
}

fn faults(page: &mut String, outcomes: &[Outcome]) {
    let seeds: Vec<_> = outcomes.iter().map(|outcome| outcome.round.seed.to_string()).collect();
    let _ = writeln!(page, "\n## Faults that struck\n\n| fault | {} | all |", seeds.join(" | "));
    let _ = writeln!(page, "|---|{}---|", "---|".repeat(seeds.len()));
    for (fault, all) in struck(outcomes) {
        let each =
            outcomes.iter().map(|outcome| outcome.tally.struck.get(&fault).copied().unwrap_or(0));
        let each: Vec<_> = each.map(|count| count.to_string()).collect();
        let _ = writeln!(page, "| {fault} | {} | {all} |", each.join(" | "));
    }
    let left_out = Fault::ALL.iter().filter_map(|fault| Some((fault, fault.left_out()?)));
    let left_out: Vec<_> = left_out.map(|(fault, why)| format!("{fault} ({why})")).collect();
    let left_out = if left_out.is_empty() { "nothing".to_owned() } else { left_out.join(", ") };
    let _ = writeln!(page, "\nLeft out: {left_out}.");
}

/// What storms were made of.
fn together(page: &mut String, outcomes: &[Outcome]) {
    let mut all: BTreeMap<&BTreeSet<Fault>, usize> = BTreeMap::new();
    for (faults, count) in outcomes.iter().flat_map(|outcome| &outcome.tally.together) {
        *all.entry(faults).or_default() += count;
    }
    let _ = writeln!(page, "\n## In force at the same time\n\n| faults | how often |\n|---|---|");
    for (faults, count) in all {
        let _ = writeln!(page, "| {} | {count} |", in_words(faults));
    }
}

/// Every check of every round, and what all of them were held against.
fn checks(page: &mut String, outcomes: &[Outcome]) {
    let seeds: Vec<_> = outcomes.iter().map(|outcome| outcome.round.seed.to_string()).collect();
    let _ = writeln!(
        page,
        "\n## What was judged\n\n| it must hold | {} | against |",
        seeds.join(" | ")
    );
    let _ = writeln!(page, "|---|{}---|", "---|".repeat(seeds.len()));
    let mut names: Vec<&str> = Vec::new();
    for check in outcomes.iter().flat_map(|outcome| &outcome.checks) {
        if !names.contains(&check.name) {
            names.push(check.name);
        }
    }
    for name in names {
        let mut against: Vec<(&str, usize)> = Vec::new();
        let verdicts = outcomes.iter().map(|outcome| {
            let Some(check) = outcome.checks.iter().find(|check| check.name == name) else {
                return "";
            };
            for (what, count) in &check.against {
                match against.iter_mut().find(|(known, _)| known == what) {
                    Some((_, sum)) => *sum += count,
                    None => against.push((what, *count)),
                }
            }
            if check.wrong.is_empty() { "yes" } else { "**no**" }
        });
        let verdicts: Vec<_> = verdicts.collect();
        let against: Vec<_> = against.iter().map(|(what, sum)| format!("{sum} {what}")).collect();
        let _ = writeln!(page, "| {name} | {} | {} |", verdicts.join(" | "), against.join(", "));
    }
    let _ = writeln!(page);
}

fn failures(page: &mut String, outcomes: &[Outcome]) {
    for outcome in outcomes.iter().filter(|outcome| !outcome.good()) {
        let _ = writeln!(
            page,
            "## Seed {} again\n\n```sh\n{}\n```\n",
            outcome.round.seed,
            outcome.round.command()
        );
        if let Some(kept) = &outcome.kept {
            let _ = writeln!(page, "Data and logs: `{}`\n", kept.display());
        }
        for check in &outcome.checks {
            for wrong in &check.wrong {
                let _ = writeln!(page, "- {}: {wrong}", check.name);
            }
        }
    }
}

/// Writes the page, with the folder it is to be in.
pub fn write(path: &Path, page: &str) {
    if let Some(folder) = path.parent() {
        let _ = fs::create_dir_all(folder);
    }
    fs::write(path, page).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::torture::{Form, Round, Security, Tally};

    fn outcome(operations: usize, longer: u64) -> Outcome {
        let round = Round { seed: 7, members: 3, form: Form::Short, security: Security::Open };
        let storm = BTreeSet::from([Fault::Loss, Fault::Stop, Fault::DiskError]);
        let tally = Tally {
            struck: BTreeMap::from([(Fault::Storm, 2)]),
            together: BTreeMap::from([(storm, 2)]),
        };
        Outcome {
            round,
            wiring: "relays".to_owned(),
            took: Duration::ZERO,
            operations,
            leader_changes: 50,
            longer: Duration::from_secs(longer),
            tally,
            checks: vec![],
            kept: None,
        }
    }

    #[test]
    fn it_says_what_was_run_and_what_was_in_force_together() {
        let page = page_of("abc (debug build)", &[outcome(10_000, 0)]);
        assert!(page.starts_with("# Torture\n\nCommit abc (debug build).\n"), "{page}");
        assert!(page.contains("| SIGSTOP any + packet loss + fsync EIO | 2 |"), "{page}");
        let left_out = "Left out: disk full (only root may mount a small disk to fill).";
        assert_eq!(page.contains(left_out), !tools::is_root(), "{page}");
        assert!(page.contains("Left out: "), "{page}");
    }

    #[test]
    fn a_round_that_proved_too_little_is_named() {
        let page = page_of("", &[outcome(9_999, 240)]);
        let named = "**Seed 7 did not get there**: 9999 operations and 50 changes, 240 s longer than planned.";
        assert!(page.contains(named), "{page}");
        let page = page_of("", &[outcome(10_000, 9)]);
        assert!(page.contains("Seed 7 went on for 9 s to get there."), "{page}");
    }
}
