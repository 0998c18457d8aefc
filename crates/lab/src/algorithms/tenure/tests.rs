//! What the stories say beyond their promises.

use std::{cell::RefCell, rc::Rc, time::Duration};

use super::{MARGIN, SCENARIOS, TTL, VACANT_MAX};
use crate::{
    algorithms::Outcome,
    engine::{Form, Trace, ms},
    faults::Script,
};

fn play(name: &str, script: Option<&str>) -> impl Iterator<Item = (u64, Outcome)> {
    let story = SCENARIOS.iter().find(|story| story.name == name).unwrap();
    let script: Option<Script> = script.map(|script| script.parse().unwrap());
    (1..=20).map(move |seed| (seed, story.play(seed, script.as_ref(), Trace::default()).unwrap()))
}

/// How long nobody led after the first leader.
fn vacancy(outcome: &Outcome) -> Duration {
    let [first, second, ..] = &outcome.ledger.tenures[..] else { panic!("nobody took over") };
    second.from.since(first.until.unwrap())
}

#[test]
fn a_dead_leader_is_followed_when_its_session_has_run_out() {
    for (seed, outcome) in play("tenure-crash", None) {
        let vacancy = vacancy(&outcome);
        // Its last renewal came within the third part of the session's time before its end.
        let span = TTL * 2 / 3 - ms(50)..TTL + ms(50);
        assert!(span.contains(&vacancy), "tenure-crash --seed {seed}: {vacancy:?}");
    }
}

#[test]
fn a_leader_that_is_cut_off_stops_just_before_the_next_is_told() {
    for (seed, outcome) in play("tenure-partition", None) {
        let vacancy = vacancy(&outcome);
        assert!(vacancy > MARGIN / 2, "tenure-partition --seed {seed}: {vacancy:?}");
        assert!(vacancy < MARGIN * 2, "tenure-partition --seed {seed}: {vacancy:?}");
        assert_eq!(outcome.ledger.writes_refused, 0, "tenure-partition --seed {seed}");
    }
}

#[test]
fn a_leader_that_believes_for_too_long_writes_in_vain() {
    for name in ["tenure-pause", "tenure-slow-clock"] {
        for (seed, outcome) in play(name, None) {
            assert!(outcome.ledger.writes_refused > 0, "{name} --seed {seed}");
            assert_eq!(outcome.ledger.stale_writes_taken, 0, "{name} --seed {seed}");
        }
    }
}

#[test]
fn the_death_of_a_server_is_nothing_to_the_elected_leader() {
    let story = SCENARIOS.iter().find(|story| story.name == "tenure-server-crash").unwrap();
    for seed in 1..=20 {
        let lines = Rc::new(RefCell::new(vec![]));
        let told = Rc::clone(&lines);
        let trace = Trace::told_to(Form::Text, move |line| told.borrow_mut().push(line.to_owned()));
        let outcome = story.play(seed, None, trace).unwrap();
        assert_eq!(outcome.ledger.tenures.len(), 1, "tenure-server-crash --seed {seed}");

        let lines = lines.take();
        let leads = lines.iter().filter(|line| line.contains("leads the log"));
        let [first, second] = &leads.collect::<Vec<_>>()[..] else { panic!("--seed {seed}") };
        assert!(first.contains(" s1 "), "--seed {seed}: {first}");
        let at: f64 = second.split_whitespace().next().unwrap().parse().unwrap();
        assert!((4.5..4.6).contains(&at), "--seed {seed}: {second}");
        let back = lines.iter().any(|line| line.contains("here I am again"));
        assert!(back, "--seed {seed}: nobody was connected to s1");
    }
}

#[test]
fn whatever_the_network_does_one_leads_and_tokens_grow() {
    let weather = "at 2s lose 20% for 9s\nat 2s duplicate 20% for 9s\nat 2s reorder 20% for 9s\n\
                   at 3s crash s1 for 4s\nat 4s crash leader for 2s\nat 6s isolate leader for 4s\n";
    for (seed, outcome) in play("tenure-crash", Some(weather)) {
        // One leader after the other may fail: how long that takes is not promised.
        for verdict in outcome.verdicts.into_iter().filter(|v| v.promise != VACANT_MAX) {
            let name = verdict.promise.to_string();
            assert!(verdict.judged > 0 && verdict.is_kept(), "--seed {seed}: {name}: {verdict:?}");
        }
        assert!(outcome.counts.of("loss") > 0 && outcome.counts.of("duplicate") > 0);
    }
}
