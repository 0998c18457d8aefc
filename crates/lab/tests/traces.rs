//! A JSON trace is complete enough to draw from: one of each kind of run is read, and what a drawing needs must be there.

#![allow(missing_docs, clippy::unwrap_used)]

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use serde_json::Value;
use tenure_lab::{
    algorithms,
    cluster::{
        catalogue::{ELECTIONS, RECIPES_PROGRAMS, ROUGH},
        scenario::Scenario,
    },
    engine::{Trace, TraceFormat},
};

/// Every line of a run.
#[derive(Clone, Default)]
struct TraceLines(Rc<RefCell<Vec<String>>>);

impl TraceLines {
    fn trace(&self) -> Trace {
        let lines = Rc::clone(&self.0);
        Trace::read_by(TraceFormat::Json, move |line| lines.borrow_mut().push(line.to_owned()))
    }

    fn events(&self) -> Vec<Value> {
        self.0.borrow().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn traced(scenario: &Scenario, seed: u64) -> TraceLines {
    let lines = TraceLines::default();
    scenario.play_traced(seed, None, lines.trace()).unwrap();
    lines
}

fn traced_story(name: &str, seed: u64) -> TraceLines {
    let lines = TraceLines::default();
    algorithms::story(name).unwrap().play(seed, None, lines.trace()).unwrap();
    lines
}

fn of<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["event"] == kind)
}

/// There are events of this kind, and all have these fields.
fn assert_fields(events: &[Value], kind: &str, fields: &[&str]) {
    assert!(of(events, kind).next().is_some(), "there is no {kind} event");
    for event in of(events, kind) {
        for field in fields {
            assert!(event.get(field).is_some(), "{field} is missing in {event}");
        }
    }
}

/// Beliefs are traced when they begin, when their deadline moves and when they end; in that order.
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
    assert!(moved > 0, "deadlines of beliefs do not move");
}

#[test]
fn trace_has_beliefs_and_deadlines_of_programs() {
    let events = traced(&RECIPES_PROGRAMS, 1).events();
    assert_beliefs(&events);
    assert_fields(&events, "session", &["who", "session", "ttl"]);
    assert_fields(&events, "observe", &["who", "name", "leader", "token", "revision"]);
    let names: Vec<&str> = of(&events, "believe").filter_map(|e| e["name"].as_str()).collect();
    for name in ["crown", "throne", "office", "lock", "book", "seats", "many/a"] {
        assert!(names.contains(&name), "{name} is never held");
    }
    let shared = of(&events, "believe").any(|event| event["mode"] == "shared");
    let permits = of(&events, "believe").any(|event| event["permit"].is_u64());
    assert!(shared && permits, "modes and permits are not traced");
}

#[test]
fn trace_has_beliefs_and_deadlines_of_clients() {
    assert_beliefs(&traced(&ELECTIONS, 1).events());
}

#[test]
fn trace_has_deadlines_of_leaders() {
    for name in ["tenure-partition", "lease-partition", "kubernetes-pause", "redlock-pause"] {
        let events = traced_story(name, 1).events();
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

#[test]
fn trace_has_every_request_and_its_outcome() {
    for scenario in [&ROUGH, &ELECTIONS, &RECIPES_PROGRAMS] {
        let events = traced(scenario, 1).events();
        assert_fields(&events, "ask", &["who", "to", "request", "kind", "lease"]);
        assert_fields(&events, "answer", &["who", "to", "request", "kind", "ok", "outcome"]);
        let mut open = BTreeMap::new();
        for event in &events {
            let request = event["request"].as_u64();
            match event["event"].as_str().unwrap() {
                "ask" => {
                    let ends = (event["who"].clone(), event["to"].clone());
                    assert_eq!(open.insert(request, ends), None, "{event}");
                }
                "answer" => {
                    let ends = (event["to"].clone(), event["who"].clone());
                    assert_eq!(open.remove(&request), Some(ends), "{event}");
                }
                "unanswered" => {
                    let ends = (event["who"].clone(), event["from"].clone());
                    assert_eq!(open.remove(&request), Some(ends), "{event}");
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "{}: what became of {open:?}?", scenario.name);
        assert!(of(&events, "answer").any(|event| event["ok"] == false), "{}", scenario.name);
    }
}

#[test]
fn trace_has_every_step_of_snapshots_and_connections() {
    let mut events = vec![];
    for seed in 1..=4 {
        events.extend(traced(&ROUGH, seed).events());
    }
    assert_fields(&events, "snapshot", &["who", "step", "index"]);
    for step in ["taken", "saved", "failed", "sent", "arrived", "installed"] {
        let traced = of(&events, "snapshot").any(|event| event["step"] == step);
        assert!(traced, "no snapshot is {step}");
    }
    assert_fields(&events, "connect", &["between"]);
    assert_fields(&events, "reset", &["between"]);
    assert_fields(&events, "news", &["who", "to", "stream", "kind"]);
}

#[test]
fn trace_has_messages_between_programs_and_members() {
    let events = traced(&RECIPES_PROGRAMS, 1).events();
    for kind in ["start", "crash", "pause", "resume", "fault"] {
        let of_program = |event: &&Value| event["who"].as_str().unwrap_or("").starts_with('p');
        assert!(of(&events, kind).any(|event| of_program(&event)), "no program has a {kind} event");
    }
    let mut under_way = BTreeMap::new();
    let mut heard = 0;
    for event in events.iter().filter(|event| event["call"].is_u64()) {
        let message = event["message"].as_u64();
        match event["event"].as_str().unwrap() {
            "send" => {
                assert!(event["arrives"][0].as_u64() >= event["at"].as_u64(), "{event}");
                under_way.insert(message, event["to"].clone());
            }
            "receive" => {
                assert_eq!(under_way.remove(&message).as_ref(), Some(&event["who"]), "{event}");
                heard += 1;
            }
            other => panic!("what is a {other} on a call?"),
        }
    }
    assert!(heard > 1000, "only {heard} messages were heard");
}

#[test]
fn trace_has_elections_and_sessions_of_each_tenure_server() {
    let events = traced_story("tenure-crash", 1).events();
    assert_fields(&events, "elections", &["who", "state"]);
    for server in ["s1", "s2", "s3"] {
        let traced = of(&events, "elections").filter(|event| event["who"] == server);
        let full = |event: &&Value| {
            let places = event["state"]["elections"][0]["candidates"].as_array();
            let leases = event["state"]["leases"].as_array();
            places.is_some_and(|places| {
                places.len() == 3
                    && places[0]["holds"] == true
                    && places.iter().all(|place| place["identity"].is_string())
            }) && leases.is_some_and(|leases| leases.len() == 3)
        };
        assert!({ traced }.any(|event| full(&event)), "{server} never has three candidates");
    }
    let session = of(&events, "state").any(|event| event["state"]["session"].is_u64());
    assert!(session, "there is no session");
}

#[test]
fn trace_has_the_end_of_every_alarm() {
    let mut rung = 0;
    for name in ["tenure-partition", "bully-crash"] {
        let events = traced_story(name, 1).events();
        assert_fields(&events, "cancel", &["who", "name"]);
        let mut due = BTreeMap::new();
        for event in &events {
            let who = event["who"].as_str().unwrap_or_default().to_owned();
            let alarm = (who.clone(), event["name"].as_str().unwrap_or_default().to_owned());
            match event["event"].as_str().unwrap() {
                "timer" => drop(due.insert(alarm, event["due"].as_u64())),
                "cancel" => assert!(due.remove(&alarm).is_some(), "{name}: {event}"),
                "ring" => {
                    assert_eq!(due.remove(&alarm), Some(event["at"].as_u64()), "{name}: {event}");
                    rung += 1;
                }
                "crash" => due.retain(|(of, _), _| *of != who),
                _ => {}
            }
        }
        // No process was paused here, so every alarm that was due has rung.
        let end = events.last().unwrap()["at"].as_u64();
        assert!(due.values().all(|due| *due >= end), "{name}: {due:?} before {end:?}");
    }
    assert!(rung > 100, "only {rung} alarms rang");
}

#[test]
fn trace_is_the_same_for_the_same_seed() {
    for scenario in [&ROUGH, &ELECTIONS, &RECIPES_PROGRAMS] {
        let (first, second) = (traced(scenario, 2), traced(scenario, 2));
        assert!(first.0.borrow().len() > 1000, "{} has a short trace", scenario.name);
        assert!(first.0 == second.0, "{} has two different traces", scenario.name);
    }
}

/// A reader of the trace does not change the run.
#[test]
fn trace_does_not_change_the_run() {
    for scenario in [&ROUGH, &ELECTIONS, &RECIPES_PROGRAMS] {
        let (read, unread) = (
            scenario.play_traced(3, None, TraceLines::default().trace()).unwrap(),
            scenario.play_traced(3, None, Trace::default()).unwrap(),
        );
        assert_eq!(read.trace.checksum, unread.trace.checksum, "{}", scenario.name);
        assert_eq!(read.counts, unread.counts, "{}", scenario.name);
    }
}
