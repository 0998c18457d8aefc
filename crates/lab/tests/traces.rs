//! A JSON trace is complete enough to draw from: one of each kind of run is read, and what a drawing needs
//! must be there.

#![allow(missing_docs, clippy::unwrap_used)]

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use serde_json::Value;
use tenure_lab::{
    algorithms,
    cluster::{
        catalogue::{LINES, RECIPES_PROGRAMS},
        scenario::Scenario,
    },
    engine::{Form, Trace},
};

/// Every line of a run, as it was written.
#[derive(Clone, Default)]
struct Lines(Rc<RefCell<Vec<String>>>);

impl Lines {
    fn trace(&self) -> Trace {
        let lines = Rc::clone(&self.0);
        Trace::told_to(Form::Json, move |line| lines.borrow_mut().push(line.to_owned()))
    }

    fn events(&self) -> Vec<Value> {
        self.0.borrow().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn told(scenario: &Scenario, seed: u64) -> Lines {
    let lines = Lines::default();
    scenario.tell(seed, None, lines.trace()).unwrap();
    lines
}

fn told_of_story(name: &str, seed: u64) -> Lines {
    let lines = Lines::default();
    algorithms::scenario(name).unwrap().play(seed, None, lines.trace()).unwrap();
    lines
}

fn of<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["event"] == kind)
}

/// Everything of this kind has these fields, whatever they say; and there is some of it.
fn assert_fields(events: &[Value], kind: &str, fields: &[&str]) {
    assert!(of(events, kind).next().is_some(), "nothing is told of {kind}");
    for event in of(events, kind) {
        for field in fields {
            assert!(event.get(field).is_some(), "{field} is missing in {event}");
        }
    }
}

/// Beliefs are told when they begin, when their end moves and when they end; in that order.
fn assert_beliefs(events: &[Value]) {
    assert_fields(events, "believe", &["who", "name", "token", "until"]);
    assert_fields(events, "disbelieve", &["who", "name", "token", "until"]);
    let mut beliefs: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut moved = 0;
    for event in events {
        let key = format!("{} {} {}", event["who"], event["name"], event["token"]);
        let until = event["until"].as_u64();
        match event["event"].as_str().unwrap() {
            "believe" => {
                let at = event["at"].as_u64().unwrap();
                let before = beliefs.insert(key, (at, until.unwrap_or(u64::MAX)));
                moved += u64::from(before.is_some());
            }
            "disbelieve" => {
                let (_, believed) = beliefs.remove(&key).unwrap_or_else(|| panic!("{event}"));
                assert_eq!(until.unwrap_or(u64::MAX), believed, "{event}");
            }
            _ => {}
        }
    }
    assert!(moved > 0, "ends of beliefs do not move");
}

#[test]
fn programs_tell_what_they_believe_and_until_when() {
    let events = told(&RECIPES_PROGRAMS, 1).events();
    assert_beliefs(&events);
    assert_fields(&events, "session", &["who", "session", "ttl"]);
    assert_fields(&events, "observe", &["who", "name", "leader", "token", "revision"]);
    let names: Vec<&str> = of(&events, "believe").filter_map(|e| e["name"].as_str()).collect();
    for name in ["crown", "throne", "office", "lock", "book", "seats", "many/a"] {
        assert!(names.contains(&name), "nobody holds {name}");
    }
    let shared = of(&events, "believe").any(|event| event["mode"] == "shared");
    let permits = of(&events, "believe").any(|event| event["permit"].is_u64());
    assert!(shared && permits, "modes and permits are not told");
}

#[test]
fn clients_tell_what_they_believe_and_until_when() {
    assert_beliefs(&told(&LINES, 1).events());
}

#[test]
fn leaders_tell_until_when_they_believe() {
    for name in ["tenure-partition", "lease-partition", "kubernetes-pause", "redlock-pause"] {
        let events = told_of_story(name, 1).events();
        assert_fields(&events, "lead", &["who", "token", "until"]);
        assert_fields(&events, "step_down", &["who", "token", "until"]);
        assert_fields(&events, "believe", &["who", "token", "until"]);
        for event in of(&events, "step_down") {
            assert!(event["until"].is_u64(), "{name}: {event}");
        }
        if name.starts_with("tenure") {
            assert!(of(&events, "step_down").all(|event| event["token"].is_u64()), "{name}");
        }
    }
}
