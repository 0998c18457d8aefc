//! The algorithms, stories, scenarios and faults of the lab.

use std::io::{Write, stdout};

use serde_json::{Value, json};
use tenure_lab::algorithms::{ALGORITHMS, Algorithm, STORIES, Story};
use tenure_lab::cluster::{catalogue, scenario::Scenario};
use tenure_lab::faults::FAULT_SYNTAX;

use super::name::{Kind, NameOf, unknown};
use super::text::{width, wrapped};
use crate::exit::Exit;
use crate::output::Format;

/// What to list.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this algorithm, and its variants: those whose names begin with it [default: all]
    #[arg(value_parser = NameOf(&[Kind::Algorithm]), hide_possible_values = true)]
    algorithm: Option<String>,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<Exit> {
    let chosen = match &args.algorithm {
        None => ALGORITHMS.to_vec(),
        Some(name) => {
            let chosen = variants(name);
            if chosen.is_empty() {
                return Err(unknown(name, &[Kind::Algorithm]));
            }
            chosen
        }
    };
    let all = args.algorithm.is_none();
    match format {
        Format::Json => writeln!(stdout(), "{}", as_json(&chosen, all))?,
        _ => write!(stdout().lock(), "{}", as_text(&chosen, all))?,
    }
    Ok(Exit::Done)
}

/// The algorithm of that name and those whose names go on after it.
fn variants(name: &str) -> Vec<&'static Algorithm> {
    let is_one = |known: &str| {
        known.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    ALGORITHMS.iter().copied().filter(|algorithm| is_one(algorithm.name)).collect()
}

pub(super) fn stories_of(algorithm: &Algorithm) -> impl Iterator<Item = &'static Story> {
    let stories = STORIES.iter().copied().flatten();
    stories.filter(|story| story.algorithm.name == algorithm.name)
}

fn as_text(algorithms: &[&Algorithm], all: bool) -> String {
    let width = width();
    let mut text = String::from("Algorithms and their stories (tenure lab run STORY)\n");
    for algorithm in algorithms {
        text += &format!("\n  {} ({})\n", algorithm.name, algorithm.origin);
        text += &format!("{}\n", wrapped(&format!("    {}", algorithm.about), 4, width));
        for story in stories_of(algorithm) {
            let line = format!("    - {}: {}", story.name, story.about);
            text += &format!("{}\n", wrapped(&line, 6, width));
            for broken in story.breaks {
                text += &format!("{}\n", wrapped(&format!("      breaks: {broken}"), 8, width));
            }
        }
    }
    if !all {
        return text;
    }
    text += "\nThe shipped replica (tenure lab run SCENARIO; tenure lab soak)\n\n";
    for scenario in catalogue::SCENARIOS {
        let line = format!("  {:<20} {}", scenario.name, scenario.about);
        text += &format!("{}\n", wrapped(&line, 23, width));
    }
    text += "\nFaults of a script, one per line: at TIME FAULT [for TIME]\n\n";
    for (fault, about) in FAULT_SYNTAX {
        text += &format!("{}\n", wrapped(&format!("  {fault:<32} {about}"), 35, width));
    }
    text
}

pub(super) fn algorithm_json(algorithm: &Algorithm) -> Value {
    let promises: Vec<String> = algorithm.promises.iter().map(ToString::to_string).collect();
    json!({
        "name": algorithm.name,
        "about": algorithm.about,
        "origin": algorithm.origin,
        "promises": promises,
    })
}

pub(super) fn story_json(story: &Story) -> Value {
    let breaks: Vec<String> = story.breaks.iter().map(ToString::to_string).collect();
    json!({
        "name": story.name,
        "algorithm": story.algorithm.name,
        "about": story.about,
        "lasts_us": story.lasts.as_micros() as u64,
        "faults": story.script,
        "breaks": breaks,
    })
}

pub(super) fn scenario_json(scenario: &Scenario) -> Value {
    let faults: Vec<&str> = scenario.faults.iter().map(|fault| fault.name).collect();
    json!({
        "name": scenario.name,
        "about": scenario.about,
        "members": scenario.members,
        "faults": faults,
    })
}

/// All there is.
pub(super) fn catalogue_json() -> Value {
    as_json(ALGORITHMS, true)
}

fn as_json(chosen: &[&Algorithm], all: bool) -> Value {
    let algorithms: Vec<_> = chosen.iter().map(|algorithm| algorithm_json(algorithm)).collect();
    let stories = chosen.iter().flat_map(|algorithm| stories_of(algorithm));
    let stories: Vec<_> = stories.map(story_json).collect();
    if !all {
        return json!({ "algorithms": algorithms, "stories": stories });
    }
    let scenarios: Vec<_> = catalogue::SCENARIOS.iter().map(|one| scenario_json(one)).collect();
    let faults: Vec<_> = FAULT_SYNTAX
        .iter()
        .map(|(fault, about)| json!({ "fault": fault, "about": about }))
        .collect();
    json!({ "algorithms": algorithms, "stories": stories, "scenarios": scenarios, "faults": faults })
}
