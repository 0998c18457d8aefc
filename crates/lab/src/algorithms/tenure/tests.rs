//! What the stories show beyond their promises.

use std::{cell::RefCell, rc::Rc, time::Duration};

use super::{MARGIN, STORIES, TTL, VACANT_MAX};
use crate::{
    algorithms::StoryOutcome,
    engine::{Trace, TraceFormat, ms},
    faults::FaultScript,
};

fn play(name: &str, script: Option<&str>) -> impl Iterator<Item = (u64, StoryOutcome)> {
    let story = STORIES.iter().find(|story| story.name == name).unwrap();
    let script: Option<FaultScript> = script.map(|script| script.parse().unwrap());
    (1..=20).map(move |seed| (seed, story.play(seed, script.as_ref(), Trace::default()).unwrap()))
}

/// The time without a leader after the first one.
fn vacancy(outcome: &StoryOutcome) -> Duration {
    let [first, second, ..] = &outcome.ledger.tenures[..] else {
        panic!("there was no second leader")
    };
    second.from.since(first.until.unwrap())
}

#[test]
fn tenure_replaces_a_dead_leader_when_its_session_expires() {
    for (seed, outcome) in play("tenure-crash", None) {
        let vacancy = vacancy(&outcome);
        // Its last renewal came within a third of the TTL before its end.
        let span = TTL * 2 / 3 - ms(50)..TTL + ms(50);
        assert!(span.contains(&vacancy), "tenure-crash --seed {seed}: {vacancy:?}");
    }
}

#[test]
fn tenure_isolated_leader_stops_before_its_successor_starts() {
    for (seed, outcome) in play("tenure-partition", None) {
        let vacancy = vacancy(&outcome);
        assert!(vacancy > MARGIN / 2, "tenure-partition --seed {seed}: {vacancy:?}");
        assert!(vacancy < MARGIN * 2, "tenure-partition --seed {seed}: {vacancy:?}");
        assert_eq!(outcome.ledger.writes_refused, 0, "tenure-partition --seed {seed}");
    }
}

#[test]
fn tenure_fences_a_leader_that_believes_too_long() {
    for name in ["tenure-pause", "tenure-slow-clock"] {
        for (seed, outcome) in play(name, None) {
            assert!(outcome.ledger.writes_refused > 0, "{name} --seed {seed}");
            assert_eq!(outcome.ledger.stale_writes_taken, 0, "{name} --seed {seed}");
        }
    }
}

#[test]
fn tenure_leader_survives_the_crash_of_a_server() {
    let story = STORIES.iter().find(|story| story.name == "tenure-server-crash").unwrap();
    for seed in 1..=20 {
        let lines = Rc::new(RefCell::new(vec![]));
        let told = Rc::clone(&lines);
        let trace =
            Trace::read_by(TraceFormat::Text, move |line| told.borrow_mut().push(line.to_owned()));
        let outcome = story.play(seed, None, trace).unwrap();
        assert_eq!(outcome.ledger.tenures.len(), 1, "tenure-server-crash --seed {seed}");

        let lines = lines.take();
        let leads = lines.iter().filter(|line| line.contains("leads the log"));
        let [first, second] = &leads.collect::<Vec<_>>()[..] else { panic!("--seed {seed}") };
        assert!(first.contains(" s1 "), "--seed {seed}: {first}");
        let at: f64 = second.split_whitespace().next().unwrap().parse().unwrap();
        assert!((4.5..4.6).contains(&at), "--seed {seed}: {second}");
        let back = lines.iter().any(|line| line.contains("attach to session"));
        assert!(back, "--seed {seed}: no contender was attached to s1");
    }
}

#[test]
fn tenure_keeps_one_leader_and_growing_tokens_on_a_bad_network() {
    let conditions = "at 2s lose 20% for 9s\nat 2s duplicate 20% for 9s\nat 2s reorder 20% for 9s\n\
                   at 3s crash s1 for 4s\nat 4s crash leader for 2s\nat 6s isolate leader for 4s\n";
    for (seed, outcome) in play("tenure-crash", Some(conditions)) {
        // Several leaders may fail in a row: the time that takes is not promised.
        for verdict in outcome.verdicts.into_iter().filter(|v| v.promise != VACANT_MAX) {
            let name = verdict.promise.to_string();
            assert!(verdict.checked > 0 && verdict.is_kept(), "--seed {seed}: {name}: {verdict:?}");
        }
        assert!(outcome.counts.of("loss") > 0 && outcome.counts.of("duplicate") > 0);
    }
}
