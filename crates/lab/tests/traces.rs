//! A JSON trace is complete enough to draw from: one of each kind of run is read, and what a drawing needs
//! must be there.

#![allow(missing_docs, clippy::unwrap_used)]

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use serde_json::Value;
use tenure_lab::{
    algorithms,
    cluster::{
        catalogue::{LINES, RECIPES_PROGRAMS, ROUGH},
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

#[test]
fn every_request_is_told_with_what_became_of_it() {
    for scenario in [&ROUGH, &LINES, &RECIPES_PROGRAMS] {
        let events = told(scenario, 1).events();
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
fn snapshots_and_connections_are_told_step_by_step() {
    let mut events = vec![];
    for seed in 1..=4 {
        events.extend(told(&ROUGH, seed).events());
    }
    assert_fields(&events, "snapshot", &["who", "step", "index"]);
    for step in ["taken", "saved", "failed", "sent", "arrived", "installed"] {
        let told = of(&events, "snapshot").any(|event| event["step"] == step);
        assert!(told, "no snapshot is {step}");
    }
    assert_fields(&events, "connect", &["between"]);
    assert_fields(&events, "reset", &["between"]);
    assert_fields(&events, "news", &["who", "to", "stream", "kind"]);
}

#[test]
fn what_programs_and_members_say_to_each_other_can_be_followed() {
    let events = told(&RECIPES_PROGRAMS, 1).events();
    for kind in ["start", "crash", "pause", "resume", "fault"] {
        let of_program = |event: &&Value| event["who"].as_str().unwrap_or("").starts_with('p');
        assert!(of(&events, kind).any(|event| of_program(&event)), "no program's {kind} is told");
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
fn the_lines_and_sessions_of_tenure_are_told_as_its_servers_have_them() {
    let events = told_of_story("tenure-crash", 1).events();
    assert_fields(&events, "lines", &["who", "state"]);
    for server in ["s1", "s2", "s3"] {
        let told = of(&events, "lines").filter(|event| event["who"] == server);
        let full = |event: &&Value| {
            let places = event["state"]["lines"][0]["places"].as_array();
            let leases = event["state"]["leases"].as_array();
            places.is_some_and(|places| {
                places.len() == 3
                    && places[0]["holds"] == true
                    && places.iter().all(|place| place["identity"].is_string())
            }) && leases.is_some_and(|leases| leases.len() == 3)
        };
        assert!({ told }.any(|event| full(&event)), "{server} has never three in line");
    }
    let session = of(&events, "state").any(|event| event["state"]["session"].is_u64());
    assert!(session, "nobody has a session");
}

#[test]
fn an_alarm_rings_or_is_set_anew_or_is_cancelled() {
    let mut rung = 0;
    for name in ["tenure-partition", "bully-crash"] {
        let events = told_of_story(name, 1).events();
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
        // Nobody stood still here, so what is due has rung.
        let end = events.last().unwrap()["at"].as_u64();
        assert!(due.values().all(|due| *due >= end), "{name}: {due:?} before {end:?}");
    }
    assert!(rung > 100, "only {rung} alarms rang");
}

#[test]
fn the_same_seed_is_drawn_in_the_same_way() {
    for scenario in [&ROUGH, &LINES, &RECIPES_PROGRAMS] {
        let (first, second) = (told(scenario, 2), told(scenario, 2));
        assert!(first.0.borrow().len() > 1000, "{} tells little", scenario.name);
        assert!(first.0 == second.0, "{} is told in two ways", scenario.name);
    }
}

/// Whoever reads sees what happens, and changes nothing of it.
#[test]
fn a_run_is_the_same_whether_it_is_told_or_not() {
    for scenario in [&ROUGH, &LINES, &RECIPES_PROGRAMS] {
        let (read, unread) = (
            scenario.tell(3, None, Lines::default().trace()).unwrap(),
            scenario.tell(3, None, Trace::default()).unwrap(),
        );
        assert_eq!(read.trace.checksum, unread.trace.checksum, "{}", scenario.name);
        assert_eq!(read.counts, unread.counts, "{}", scenario.name);
    }
}
