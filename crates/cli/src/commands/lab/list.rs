//! The algorithms, stories, scenarios and faults of the lab.

use std::io::{Write, stdout};

use serde_json::json;
use tenure_lab::algorithms::{ALGORITHMS, STORIES};
use tenure_lab::cluster::catalogue;
use tenure_lab::faults::FAULT_SYNTAX;

use crate::exit::Exit;
use crate::output::Format;

pub(super) fn run(format: Format) -> anyhow::Result<Exit> {
    match format {
        Format::Json => writeln!(stdout(), "{}", as_json())?,
        _ => write!(stdout().lock(), "{}", as_text())?,
    }
    Ok(Exit::Done)
}

fn as_text() -> String {
    let mut text = String::from("Algorithms and their stories (tenure lab run STORY)\n");
    for algorithm in ALGORITHMS {
        text +=
            &format!("\n  {} ({})\n    {}\n", algorithm.name, algorithm.origin, algorithm.about);
        let stories = STORIES.iter().copied().flatten();
        for story in stories.filter(|story| story.algorithm.name == algorithm.name) {
            text += &format!("    - {}: {}\n", story.name, story.about);
            for broken in story.breaks {
                text += &format!("      breaks: {broken}\n");
            }
        }
    }
    text += "\nThe shipped replica (tenure lab run SCENARIO; tenure lab soak)\n\n";
    for scenario in catalogue::SCENARIOS {
        text += &format!("  {:<16} {}\n", scenario.name, scenario.about);
    }
    text += "\nFaults of a script, one per line: at TIME FAULT [for TIME]\n\n";
    for (fault, about) in FAULT_SYNTAX {
        text += &format!("  {fault:<32} {about}\n");
    }
    text
}

fn as_json() -> serde_json::Value {
    let algorithms: Vec<_> = ALGORITHMS
        .iter()
        .map(|algorithm| {
            let promises: Vec<String> =
                algorithm.promises.iter().map(ToString::to_string).collect();
            json!({
                "name": algorithm.name,
                "about": algorithm.about,
                "origin": algorithm.origin,
                "promises": promises,
            })
        })
        .collect();
    let stories: Vec<_> = STORIES
        .iter()
        .copied()
        .flatten()
        .map(|story| {
            let breaks: Vec<String> = story.breaks.iter().map(ToString::to_string).collect();
            json!({
                "name": story.name,
                "algorithm": story.algorithm.name,
                "about": story.about,
                "lasts_us": story.lasts.as_micros() as u64,
                "faults": story.script,
                "breaks": breaks,
            })
        })
        .collect();
    let scenarios: Vec<_> = catalogue::SCENARIOS
        .iter()
        .map(|scenario| {
            let faults: Vec<&str> = scenario.faults.iter().map(|fault| fault.name).collect();
            json!({
                "name": scenario.name,
                "about": scenario.about,
                "members": scenario.members,
                "faults": faults,
            })
        })
        .collect();
    let faults: Vec<_> = FAULT_SYNTAX
        .iter()
        .map(|(fault, about)| json!({ "fault": fault, "about": about }))
        .collect();
    json!({ "algorithms": algorithms, "stories": stories, "scenarios": scenarios, "faults": faults })
}
