//! Every story of every algorithm: what is said to break breaks, what is said to hold holds, and the same
//! seed gives the same story, byte for byte.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "algorithms/stores.rs"]
mod stores;

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use tenure_lab::{
    algorithms::{ALGORITHMS, SCENARIOS, Scenario},
    engine::{Form, Trace},
};

/// Each story is played with so many seeds.
const SEEDS: u64 = 20;

fn stories() -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS.iter().copied().flatten()
}

#[test]
fn every_story_ends_as_it_says() {
    let mut wrong = vec![];
    for scenario in stories() {
        for seed in 1..=SEEDS {
            let outcome = scenario.play(seed, None, Trace::default()).unwrap();
            for surprise in outcome.surprises {
                wrong.push(format!("{} --seed {seed}: {surprise}", scenario.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} surprises:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let tell = |scenario: &Scenario, seed, form| {
        let lines = Rc::new(RefCell::new(String::new()));
        let told = Rc::clone(&lines);
        let trace = Trace::told_to(form, move |line| {
            told.borrow_mut().push_str(line);
            told.borrow_mut().push('\n');
        });
        let outcome = scenario.play(seed, None, trace).unwrap();
        (lines.take(), outcome.checksum)
    };
    for scenario in stories() {
        for form in [Form::Text, Form::Json] {
            let (first, second) = (tell(scenario, 7, form), tell(scenario, 7, form));
            assert!(first.0.len() > 500, "{} tells little", scenario.name);
            assert!(first == second, "{} is told in two ways", scenario.name);
            if form == Form::Text {
                assert_ne!(first.1, tell(scenario, 8, form).1, "{}", scenario.name);
            }
        }
    }
}

#[test]
fn every_line_of_a_story_is_json_that_says_when_and_what() {
    for scenario in stories() {
        let trace = Trace::told_to(Form::Json, |line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(event["at"].is_u64() && event["event"].is_string(), "{line}");
            assert!(event["text"].is_string(), "{line}");
        });
        scenario.play(1, None, trace).unwrap();
    }
}

#[test]
fn every_algorithm_has_a_story_and_every_name_is_its_own() {
    let mut names = BTreeSet::new();
    for scenario in stories() {
        assert!(names.insert(scenario.name), "{} is there twice", scenario.name);
        assert!(scenario.about.ends_with('.'), "{}: say it in sentences", scenario.name);
    }
    for algorithm in ALGORITHMS {
        assert!(names.insert(algorithm.name), "{} is there twice", algorithm.name);
        let told = stories().any(|scenario| scenario.algorithm.name == algorithm.name);
        assert!(told, "nothing is told of {}", algorithm.name);
    }
}
