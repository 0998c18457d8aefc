//! Locks and leases on a store: the figures of their stories, measured.

use std::{cell::RefCell, rc::Rc, time::Duration};

use serde_json::Value;
use tenure_lab::{
    algorithms::{ALGORITHMS, Algorithm, Setup, StoryOutcome, algorithm, story},
    engine::{Trace, TraceFormat},
    faults::{Action, FaultScript, Target},
    stage::{AlgorithmRun, Ledger},
};

/// Messages take up to 0.4 ms, and clocks are off by up to 100 millionths: that is 3.5 ms after 35 s.
const NEARLY: Duration = Duration::from_millis(6);

fn is_nearly(at: Duration, seconds: u64) -> bool {
    at.abs_diff(Duration::from_secs(seconds)) <= NEARLY
}

fn at(event: &Value) -> Duration {
    Duration::from_micros(event["at"].as_u64().unwrap())
}

fn tell(name: &str, seed: u64) -> (Vec<Value>, StoryOutcome) {
    let events = Rc::new(RefCell::new(vec![]));
    let told = Rc::clone(&events);
    let trace = Trace::read_by(TraceFormat::Json, move |line| {
        told.borrow_mut().push(serde_json::from_str(line).unwrap());
    });
    let outcome = story(name).unwrap().play(seed, None, trace).unwrap();
    (events.take(), outcome)
}

/// Events of one kind, of one process.
fn of<'a>(
    events: &'a [Value],
    kind: &'static str,
    who: &'static str,
) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["event"] == kind && event["who"] == who)
}

/// T=0 a leads with token 100, T=5 it is paused for 30 s, T=10 the lease ends, T=11 b leads with 101, T=35 a resumes and
/// writes with 100. Returns whether that was taken.
fn gc_pause(name: &str, seed: u64) -> bool {
    let (events, outcome) = tell(name, seed);
    let tenures = &outcome.ledger.tenures;
    assert_eq!(tenures.len(), 2, "{name} --seed {seed}: {tenures:?}");
    let (a, b) = (&tenures[0], &tenures[1]);
    assert_eq!((a.process, a.token, b.process, b.token), (0, Some(100), 1, Some(101)));
    assert!(is_nearly(a.from.since_start(), 0), "{a:?}");
    assert!(is_nearly(b.from.since_start(), 11), "{b:?}");
    assert!(is_nearly(a.until.unwrap().since_start(), 35), "{a:?}");

    let one = |kind, who| at(of(&events, kind, who).next().unwrap());
    assert!(is_nearly(one("pause", "a"), 5) && is_nearly(one("resume", "a"), 35));
    let forgets =
        of(&events, "say", "store").find(|said| said["text"].to_string().contains("forgets"));
    assert!(is_nearly(at(forgets.unwrap()), 10), "{forgets:?}");

    let late: Vec<&Value> =
        of(&events, "write", "a").filter(|write| at(write).as_secs() > 5).collect();
    assert_eq!(late.len(), 1, "a stops with the first answer that it gets: {late:?}");
    assert!(is_nearly(at(late[0]), 35) && late[0]["token"] == 100, "{late:?}");
    let stale: Vec<&Value> = of(&events, "written", "storage")
        .filter(|written| written["from"] == "a" && at(written).as_secs() > 5)
        .collect();
    assert_eq!(stale.len(), 1, "{stale:?}");
    stale[0]["taken"].as_bool().unwrap()
}

#[test]
fn lease_story_of_a_gc_pause_matches_its_timeline() {
    for seed in 1..=20 {
        assert!(gc_pause("lease-gc-pause", seed), "the storage does not check tokens");
        assert!(!gc_pause("lease-fenced-gc-pause", seed), "100 < 101");
    }
}

#[test]
fn lease_storage_refuses_token_33_after_34() {
    for seed in 1..=20 {
        let (events, outcome) = tell("lease-fenced-33-34", seed);
        let tokens: Vec<_> = outcome.ledger.tenures.iter().map(|t| (t.process, t.token)).collect();
        assert_eq!(tokens, [(0, Some(33)), (1, Some(34))]);
        let b = outcome.ledger.tenures[1].from.since_start();
        assert!(
            is_nearly(b, 10),
            "b has the lease as soon as the lease of 10 s is over, not at {b:?}"
        );
        let refused: Vec<_> =
            of(&events, "written", "storage").filter(|w| w["taken"] == false).collect();
        assert!(!refused.is_empty());
        assert!(refused.iter().all(|w| w["token"] == 33 && w["highest"] == 34), "{refused:?}");
        assert_eq!(outcome.ledger.stale_writes_taken, 0);
    }
}

fn build(name: &str, contenders: usize) -> Box<dyn AlgorithmRun> {
    (algorithm(name).unwrap().build)(&Setup { seed: 1, contenders })
}

fn everything_sent(ledger: &Ledger) -> u64 {
    ledger.sent() + ledger.routine_sent()
}

#[test]
fn store_watch_is_faster_than_polling_and_sends_nothing_meanwhile() {
    let handed_over = |name: &str| {
        let outcome = story(name).unwrap().play(1, None, Trace::default()).unwrap();
        assert!(outcome.ledger.tenures.len() >= 4, "{:?}", outcome.ledger.tenures);
        outcome.ledger.vacant_longest
    };
    let (polling, watching) = (handed_over("cas-lock-polling"), handed_over("cas-lock-watching"));
    assert!(polling > Duration::from_millis(900), "{polling:?}");
    assert!(watching < Duration::from_millis(5), "{watching:?}");

    // From 1 s to 4 s the same process has the lock, and four wait for it.
    let said_meanwhile = |name: &str| {
        let mut play = build(name, 5);
        play.run(Duration::from_secs(1));
        play.mark();
        play.run(Duration::from_secs(3));
        everything_sent(play.ledger())
    };
    // Each asks at 2 s and at 4 s, and is answered; the last answers may come later.
    assert!(said_meanwhile("cas-lock") >= 8);
    assert_eq!(said_meanwhile("cas-lock-watch"), 0);
}

/// The number of messages when the leader of this many contenders dies.
fn said_at_the_end_of_a_leader(name: &str, contenders: usize) -> u64 {
    let mut play = build(name, contenders);
    play.run(Duration::from_secs(15));
    play.inject(&Action::Crash(Target::Leader), None).unwrap();
    play.mark();
    play.run(Duration::from_secs(35));
    assert_eq!(play.leaders().len(), 1);
    play.ledger().sent()
}

#[test]
fn sequential_keys_herd_grows_with_candidates_and_watching_the_previous_does_not() {
    let herd = |contenders| said_at_the_end_of_a_leader("zookeeper-herd", contenders);
    let next = |contenders| said_at_the_end_of_a_leader("zookeeper", contenders);
    // Each is told, asks and is answered.
    assert_eq!(herd(20) - herd(10), 10 * 3);
    assert_eq!(next(20), next(10));
    assert_eq!(next(20), 3, "the next is told, asks and is answered");
}

fn on_a_store() -> impl Iterator<Item = &'static Algorithm> {
    let first =
        ["cas-", "lease", "etcd-", "zookeeper", "redis", "redlock", "kubernetes", "dynamodb"];
    let is_one = move |name: &str| first.iter().any(|first| name.starts_with(first));
    ALGORITHMS.iter().copied().filter(move |algorithm| is_one(algorithm.name))
}

#[test]
fn store_locks_detect_a_dead_owner() {
    let mut noticed = 0;
    for algorithm in on_a_store() {
        let Some(patience) = algorithm.patience else { continue };
        let mut play = build(algorithm.name, algorithm.contenders);
        assert!(play.run_until_known(patience), "{}: not all know the leader", algorithm.name);
        play.run(Duration::from_secs(1));
        play.inject(&Action::Crash(Target::Leader), None).unwrap();
        play.mark();
        let died = play.now();
        assert!(play.run_until_led(patience), "{}: there is no leader", algorithm.name);
        let detected = play.ledger().detected.map(|at| at.since(died));
        let led = play.now().since(died);
        assert!(detected.is_some_and(|at| at <= led), "{}: {detected:?} {led:?}", algorithm.name);
        noticed += 1;
    }
    assert!(noticed >= 18, "{noticed}");
}

#[test]
fn store_algorithms_elect_again_after_many_faults() {
    let storm = "at 3s lose 30% for 57s\nat 3s duplicate 30% for 57s\nat 3s reorder 30% for 57s\n\
                 at 10s pause leader for 20s\nat 40s isolate a for 15s\nat 50s crash b for 5s\n";
    let storm: FaultScript = storm.parse().unwrap();
    for algorithm in on_a_store() {
        let Some(patience) = algorithm.patience else { continue };
        for seed in 1..=10 {
            let setup = Setup { seed, contenders: algorithm.contenders };
            let mut play = (algorithm.build)(&setup);
            play.follow(&storm).unwrap();
            play.run(Duration::from_secs(60));
            let led = play.run_until_led(2 * patience);
            assert!(led, "{} --seed {seed}: there is no leader", algorithm.name);
        }
    }
}
