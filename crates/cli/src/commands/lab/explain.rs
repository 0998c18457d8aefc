//! One story, scenario or algorithm, with all that there is to know before a run.

use std::io::{Write, stdout};

use tenure_lab::algorithms::{self, Algorithm, Setup, Story};
use tenure_lab::cluster::scenario::Scenario;
use tenure_lab::faults::{FAULT_SYNTAX, write_span};

use super::list;
use super::name::{Kind, NameOf, unknown};
use super::run::scenario;
use super::text::{width, wrapped};
use crate::exit::Exit;
use crate::output::Format;

/// What to explain.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A story, a scenario or an algorithm
    #[arg(value_parser = NameOf(Kind::ALL), hide_possible_values = true)]
    name: String,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<Exit> {
    let name = args.name.as_str();
    let (text, object) = if let Some(story) = algorithms::story(name) {
        (of_story(story), list::story_json(story))
    } else if let Some(one) = scenario(name) {
        (of_scenario(one), list::scenario_json(one))
    } else if let Some(algorithm) = algorithms::algorithm(name) {
        (of_algorithm(algorithm), list::algorithm_json(algorithm))
    } else {
        return Err(unknown(name, Kind::ALL));
    };
    match format {
        Format::Json => writeln!(stdout(), "{object}")?,
        _ => write!(stdout().lock(), "{text}")?,
    }
    Ok(Exit::Done)
}

fn of_story(story: &Story) -> String {
    let algorithm = story.algorithm;
    let mut text = heading(story.name, &format!("a story of {}", algorithm.name), story.about);
    text += &format!("\n{}\n", about(algorithm));
    let run = (algorithm.build)(&Setup { seed: 1, contenders: algorithm.contenders });
    let names = run.names();
    let (contenders, servers) = names.split_at(run.contenders());
    text += &format!("Processes: {}", contenders.join(", "));
    if !servers.is_empty() {
        text += &format!("; servers: {}", servers.join(", "));
    }
    text += &format!(". The run takes {} of virtual time.\n", write_span(story.lasts));
    let script = story.own_script();
    text += match script.steps.is_empty() {
        true => "\nThere are no faults.\n",
        false => "\nFaults:\n",
    };
    for step in &script.steps {
        let step = step.to_string();
        let meaning = meaning(step.split(' ').skip(2));
        text += &line(&format!("  {step:<34}  {meaning}"), 38);
    }
    text += "\nWhat the algorithm promises, and what becomes of it:\n";
    for promise in algorithm.promises {
        let verdict = if story.breaks.contains(promise) { "broken" } else { "kept" };
        text += &line(&format!("  {verdict:<6}  {promise}"), 10);
    }
    text += &format!("\nPlay it: tenure lab run {}\n", story.name);
    text
}

fn of_scenario(scenario: &Scenario) -> String {
    let mut text = heading(scenario.name, "a scenario of the shipped replica", scenario.about);
    let members = scenario.members;
    text += &format!("\nMembers: {members}\n");
    if !scenario.faults.is_empty() {
        let faults: Vec<&str> = scenario.faults.iter().map(|fault| fault.name).collect();
        text += &line(&format!("Faults, drawn by chance: {}", faults.join(", ")), 2);
    }
    text += "\nEvery invariant must hold; the first that does not ends the run.\n";
    text += &format!("\nPlay it: tenure lab run {} --seed 1\n", scenario.name);
    text
}

fn of_algorithm(algorithm: &'static Algorithm) -> String {
    let mut text = format!("{}\n", about(algorithm));
    text += "\nIt promises:\n";
    for promise in algorithm.promises {
        text += &line(&format!("  {promise}"), 4);
    }
    text + "\n" + &stories(algorithm)
}

/// The stories of an algorithm, and how to play one.
pub(super) fn stories(algorithm: &Algorithm) -> String {
    let mut text = format!("Stories of {} (tenure lab run STORY):\n", algorithm.name);
    for story in list::stories_of(algorithm) {
        text += &line(&format!("  {}: {}", story.name, story.about), 4);
    }
    text
}

/// A name, what it is, and its own sentence.
pub(super) fn heading(name: &str, kind: &str, about: &str) -> String {
    format!("{name}, {kind}\n{}", line(&format!("  {about}"), 2))
}

fn about(algorithm: &Algorithm) -> String {
    let Algorithm { name, about, origin, .. } = algorithm;
    wrapped(&format!("The algorithm {name}: {about} ({origin})."), 2, width())
}

fn line(text: &str, indent: usize) -> String {
    wrapped(text, indent, width()) + "\n"
}

/// What a fault does: of the syntax lines that fit, the most exact one.
fn meaning<'a>(fault: impl Iterator<Item = &'a str> + Clone) -> &'static str {
    let is_literal = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || "->".contains(c));
    FAULT_SYNTAX
        .iter()
        .filter(|(syntax, _)| syntax.split(' ').next() == fault.clone().next())
        .map(|(syntax, about)| (syntax.split(' ').filter(is_literal).collect::<Vec<_>>(), *about))
        .filter(|(literals, _)| {
            literals.iter().all(|word| fault.clone().any(|typed| typed == *word))
        })
        .max_by_key(|(literals, _)| literals.len())
        .map_or("", |(_, about)| about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_explanation_of_a_fault_is_that_of_its_own_line() {
        for (fault, about) in [
            ("pause leader for 20s", "it is paused and does not know it"),
            ("cut a -> s1", "no message passes from the first to the second"),
            ("cut a s1", "no message passes between the two"),
            ("split a b | c d", "no message passes between the groups"),
            ("clock s3 jumps +20s", "its wall clock is set"),
            ("lose a -> b 10%", "the same, from the first to the second only"),
            ("disk m1 slows by 1ms..2ms", "every flush takes this much longer (replica)"),
        ] {
            assert_eq!(meaning(fault.split(' ')), about, "{fault}");
        }
    }

    #[test]
    fn lab_explanation_has_every_fault_and_promise_of_every_story() {
        for story in algorithms::STORIES.iter().copied().flatten() {
            let text = of_story(story);
            assert!(!text.contains("Some("), "{text}");
            for step in story.own_script().steps {
                let step = step.to_string();
                assert!(text.contains(&step), "{text}");
                assert!(!meaning(step.split(' ').skip(2)).is_empty(), "{step}");
            }
            let broken = text.matches("\n  broken  ").count();
            assert_eq!(broken, story.breaks.len(), "{text}");
        }
    }
}
