//! Every story of every algorithm: the listed promises break, the others hold, and the same seed gives the same story,
//! byte for byte.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "algorithms/stores.rs"]
mod stores;

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use tenure_lab::{
    algorithms::{ALGORITHMS, STORIES, Story},
    engine::{Trace, TraceFormat},
};

/// How many seeds each story is played with.
const SEEDS: u64 = 20;

fn stories() -> impl Iterator<Item = &'static Story> {
    STORIES.iter().copied().flatten()
}

#[test]
fn stories_break_exactly_the_promises_that_they_list() {
    let mut wrong = vec![];
    for story in stories() {
        for seed in 1..=SEEDS {
            let outcome = story.play(seed, None, Trace::default()).unwrap();
            for surprise in outcome.surprises {
                wrong.push(format!("{} --seed {seed}: {surprise}", story.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} surprises:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn story_trace_is_the_same_for_the_same_seed() {
    let tell = |story: &Story, seed, form| {
        let lines = Rc::new(RefCell::new(String::new()));
        let told = Rc::clone(&lines);
        let trace = Trace::read_by(form, move |line| {
            told.borrow_mut().push_str(line);
            told.borrow_mut().push('\n');
        });
        let outcome = story.play(seed, None, trace).unwrap();
        (lines.take(), outcome.checksum)
    };
    for story in stories() {
        for form in [TraceFormat::Text, TraceFormat::Json] {
            let (first, second) = (tell(story, 7, form), tell(story, 7, form));
            assert!(first.0.len() > 500, "{} has a short trace", story.name);
            assert!(first == second, "{} has two different traces", story.name);
            if form == TraceFormat::Text {
                assert_ne!(first.1, tell(story, 8, form).1, "{}", story.name);
            }
        }
    }
}

#[test]
fn story_trace_lines_are_json_with_time_and_event() {
    for story in stories() {
        let trace = Trace::read_by(TraceFormat::Json, |line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(event["at"].is_u64() && event["event"].is_string(), "{line}");
            assert!(event["text"].is_string(), "{line}");
        });
        story.play(1, None, trace).unwrap();
    }
}

#[test]
fn algorithms_have_stories_and_unique_names() {
    let mut names = BTreeSet::new();
    for story in stories() {
        assert!(names.insert(story.name), "{} is there twice", story.name);
        assert!(story.about.ends_with('.'), "{}: say it in sentences", story.name);
    }
    for algorithm in ALGORITHMS {
        assert!(names.insert(algorithm.name), "{} is there twice", algorithm.name);
        let told = stories().any(|story| story.algorithm.name == algorithm.name);
        assert!(told, "there is no story of {}", algorithm.name);
    }
}

#[test]
fn fault_of_a_clock_ends_when_the_script_says_so() {
    let story = stories().find(|story| story.name == "lease-crash").unwrap();
    let writes = |script: &str| {
        let outcome = story.play(1, Some(&script.parse().unwrap()), Trace::default()).unwrap();
        outcome.ledger.writes_taken
    };
    let sound = writes("at 1s clock a drifts 0%\n");
    // A leader whose clock runs at double speed writes twice as often.
    let short = writes("at 1s clock a drifts 100% for 1s\n");
    let for_good = writes("at 1s clock a drifts 100%\n");
    assert!(short > sound && short < sound + 20, "{sound}, {short}");
    assert!(for_good > sound + 200, "{sound}, {for_good}");
}
