//! What the stories show beyond their promises: how long it takes, and how often it happens.

use std::{ops::Range, time::Duration};

use super::STORIES;
use crate::{
    algorithms::StoryOutcome,
    engine::{Trace, ms},
};

fn play(name: &str) -> impl Iterator<Item = (u64, StoryOutcome)> {
    let story = STORIES.iter().find(|story| story.name == name).unwrap();
    (1..=20).map(|seed| (seed, story.play(seed, None, Trace::default()).unwrap()))
}

/// The time without a leader after the first one.
fn vacancy(outcome: &StoryOutcome) -> Duration {
    let [first, second, ..] = &outcome.ledger.tenures[..] else {
        panic!("there was no second leader")
    };
    second.from.since(first.until.unwrap())
}

fn takes_over_within(name: &str, span: Range<Duration>) {
    for (seed, outcome) in play(name) {
        let vacancy = vacancy(&outcome);
        assert!(span.contains(&vacancy), "{name} --seed {seed}: {vacancy:?}");
    }
}

#[test]
fn raft_takeover_on_a_closed_connection_takes_milliseconds() {
    // The first to ask may lack an entry that the other has; then that one asks, 30 ms after it has heard.
    takes_over_within("raft-crash", ms(0)..ms(50));
    let quick = play("raft-crash").filter(|(_, outcome)| vacancy(outcome) < ms(20)).count();
    assert!(quick >= 15, "only {quick} of 20 were quick");
}

#[test]
fn raft_takeover_on_silence_takes_the_shortest_timeout() {
    // The last heartbeat came up to 50 ms before the end; votes take a few milliseconds.
    takes_over_within("raft-paper-crash", ms(100)..ms(305));
    takes_over_within("raft-no-prevote-crash", ms(100)..ms(305));
    // And here up to 2 s before.
    takes_over_within("raft-kraft-crash", ms(7_000)..ms(18_050));
}

#[test]
fn raft_leader_that_was_isolated_or_paused_writes_nothing() {
    for name in ["raft-partition", "raft-pause"] {
        for (seed, outcome) in play(name) {
            assert!(outcome.ledger.writes_refused > 0, "{name} --seed {seed}");
        }
    }
}

#[test]
fn raft_flapping_member_deposes_leaders_only_without_pre_vote() {
    for (seed, outcome) in play("raft-flapping") {
        assert_eq!(outcome.ledger.tenures.len(), 1, "raft-flapping --seed {seed}");
    }
    for (seed, outcome) in play("raft-no-prevote-flapping") {
        let tenures = outcome.ledger.tenures.len();
        assert!(tenures > 5, "raft-no-prevote-flapping --seed {seed}: {tenures} tenures");
    }
}

#[test]
fn raft_with_fixed_timeouts_splits_votes_repeatedly() {
    for (seed, outcome) in play("raft-fixed-timeouts-split") {
        let asked = outcome.ledger.messages["request vote"];
        // Four members ask three others, every 150 ms for 7 s.
        assert!(asked > 4 * 3 * 40, "raft-fixed-timeouts-split --seed {seed}: asked {asked} times");
        assert_eq!(outcome.ledger.tenures.len(), 1, "raft-fixed-timeouts-split --seed {seed}");
    }
}
