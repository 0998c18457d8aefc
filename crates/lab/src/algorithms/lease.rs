//! A lease, without and with fencing: the story that everybody tells, second by second.
//!
//! A lock service lends the office for 10 s at a time, and counts: every lease has a number that is higher
//! than all before, its token. Who holds a lease asks for more of it before it ends, and stops by itself if
//! it gets none.
//!
//! A leader that stands still for longer than its lease does not know that. When it goes on it writes, as if
//! it still led. No lock can prevent that; only the storage can, if it is shown the token and has seen a
//! higher one.

use std::time::Duration;

use tenure_replica::Moment;

use super::{
    Algorithm, Scenario, Setup,
    store::{Answer, Ask, Line, Rules, STORE, Say, Store, When},
};
use crate::{
    engine::ms,
    stage::{Gate, NodeId, Part, Play, Program, Promise, Scene, Stage, View},
};

const KEY: &str = "leader";
const TTL: Duration = ms(10_000);
/// Later than usual, so that the leader of the story has not renewed when it falls asleep after 5 s.
const RENEW: Duration = ms(6000);
/// The fifth try is at 11 s.
const POLL: Duration = ms(2200);
/// Who is told of the end of a lease looks again after this time all the same: news may be lost.
const LOOK_AGAIN: Duration = ms(15_000);
/// A leader counts its lease as shorter by this share: clocks do not run equally fast.
const MARGIN: u32 = 100;

/// Where the story is told with these tokens.
#[derive(Debug)]
struct Telling {
    first_token: u64,
    gate: Gate,
    /// Whoever waits is told when the lease ends, or tries every so often.
    watches: bool,
}

const PLAIN: Telling = Telling { first_token: 100, gate: Gate::Open, watches: false };
const FENCED: Telling = Telling { gate: Gate::Tokens, ..PLAIN };
const FENCED_33: Telling = Telling { first_token: 33, gate: Gate::Tokens, watches: true };

const PROMISES: &[Promise] = &[
    Promise::OneBeliever,
    Promise::OneWriter,
    Promise::TokensGrow,
    Promise::VacantAtMost(ms(12_300)),
    Promise::SomebodyLeads,
];

pub(super) const LEASE: Algorithm = Algorithm {
    name: "lease",
    about: "a lock service lends the office for 10 s at a time; the storage takes every write",
    origin: "Gray and Cheriton 1989",
    promises: PROMISES,
    contenders: 2,
    patience: Some(ms(14_000)),
    cast: |setup| cast(setup, &PLAIN),
};

pub(super) const LEASE_FENCED: Algorithm = Algorithm {
    name: "lease-fenced",
    about: "leases of 10 s, each with a higher token; the storage refuses tokens lower than it has seen",
    origin: "Kleppmann 2016",
    cast: |setup| cast(setup, &FENCED),
    ..LEASE
};

pub(super) const LEASE_FENCED_WATCH: Algorithm = Algorithm {
    name: "lease-fenced-watch",
    about: "leases with tokens, and whoever waits is told when one ends",
    origin: "Kleppmann 2016",
    cast: |setup| cast(setup, &FENCED_33),
    ..LEASE
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "lease-crash",
        algorithm: &LEASE,
        about: "The leader dies. Its lease ends 10 s after the last renewal, and with the next try the other leads.",
        lasts: Duration::from_secs(30),
        script: "at 7s crash a\n",
        breaks: &[],
    },
    Scenario {
        name: "lease-partition",
        algorithm: &LEASE,
        about: "The leader cannot renew its lease, knows when it ends, and stops before anybody else leads.",
        lasts: Duration::from_secs(40),
        script: "at 7s cut a store for 20s\n",
        breaks: &[],
    },
    Scenario {
        name: "lease-gc-pause",
        algorithm: &LEASE,
        about: "T=0 a has the lease with token 100. T=5 it pauses for 30 s. T=10 the lease ends. T=11 b has it with token 101. T=35 a wakes up and writes: the storage takes it, and the data are corrupt.",
        lasts: Duration::from_secs(45),
        script: "at 5s pause a for 30s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "lease-fenced-gc-pause",
        algorithm: &LEASE_FENCED,
        about: "The same, second by second; but the storage has seen token 101 and refuses what a writes with 100.",
        lasts: Duration::from_secs(45),
        script: "at 5s pause a for 30s\n",
        breaks: &[Promise::OneBeliever],
    },
    Scenario {
        name: "lease-fenced-33-34",
        algorithm: &LEASE_FENCED_WATCH,
        about: "A lease of 10 s with token 33, a pause of 30 s, a lease with token 34: 33 is less than 34, and refused.",
        lasts: Duration::from_secs(45),
        script: "at 3s pause a for 30s\n",
        breaks: &[Promise::OneBeliever],
    },
];

#[derive(Debug)]
struct Holder {
    telling: &'static Telling,
    line: Line,
    part: Part,
    leader: Option<NodeId>,
    token: Option<u64>,
    asked: Moment,
}

impl Holder {
    fn new(telling: &'static Telling) -> Holder {
        Holder {
            telling,
            line: Line::default(),
            part: Part::Idle,
            leader: None,
            token: None,
            asked: Moment::ZERO,
        }
    }

    fn put(&mut self, purpose: &'static str, when: When, scene: &mut Scene<'_, Say>) {
        let (store, value) = (scene.named(STORE), scene.name(scene.me).to_owned());
        let what = Ask::Put { key: KEY, value, when, ttl: Some(TTL), stamp: None };
        self.asked = scene.now();
        self.line.ask(store, purpose, what, scene);
    }

    fn acquire(&mut self, purpose: &'static str, scene: &mut Scene<'_, Say>) {
        self.part = Part::Candidate;
        self.put(purpose, When::Missing, scene);
    }

    fn renew(&mut self, scene: &mut Scene<'_, Say>) {
        self.put("renew", When::Is(scene.name(scene.me).to_owned()), scene);
    }

    fn wait(&mut self, leader: Option<NodeId>, scene: &mut Scene<'_, Say>) {
        self.part = Part::Waiting;
        self.leader = leader;
        if self.telling.watches && leader.is_some() {
            let what = Ask::Get { key: KEY, watch: true };
            self.line.ask(scene.named(STORE), "poll", what, scene);
            scene.alarm("again", LOOK_AGAIN);
        } else {
            scene.alarm("again", POLL);
        }
    }

    /// The lease lasts from when it was *asked* for.
    fn lasts(&self, scene: &mut Scene<'_, Say>) {
        let over = self.asked + (TTL - TTL / MARGIN);
        scene.alarm("over", over.since(scene.now()));
        scene.alarm("renew", RENEW);
    }

    fn stop(&mut self, leader: Option<NodeId>, scene: &mut Scene<'_, Say>) {
        scene.step_down();
        scene.cancel("over");
        scene.cancel("renew");
        self.token = None;
        self.wait(leader, scene);
    }

    fn won(&mut self, token: u64, scene: &mut Scene<'_, Say>) {
        scene.detect();
        scene.cancel("again");
        self.part = Part::Leader;
        self.leader = Some(scene.me);
        self.token = Some(token);
        scene.lead(self.token);
        self.lasts(scene);
    }
}

impl Program<Say> for Holder {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        *self = Holder::new(self.telling);
        // The first of them has it at T=0.
        scene.alarm("again", if scene.me == 0 { Duration::ZERO } else { POLL });
    }

    fn receive(&mut self, _from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match word {
            Say::Answer { number, purpose, answer } if self.line.hears(number, scene) => {
                match (purpose, answer) {
                    ("acquire" | "poll", Answer::Done { now: Some(entry), .. }) => {
                        self.won(entry.created, scene);
                    }
                    ("acquire" | "poll", Answer::Refused(entry)) => {
                        self.wait(entry.map(|entry| entry.writer), scene);
                    }
                    ("poll", Answer::Found(None)) => self.acquire("acquire", scene),
                    ("renew", Answer::Done { .. }) => self.lasts(scene),
                    ("renew", Answer::Refused(entry)) => {
                        scene.say("learns that its lease is over");
                        self.stop(entry.map(|entry| entry.writer), scene);
                    }
                    _ => {}
                }
            }
            Say::Changed { .. } if self.part == Part::Waiting => {
                scene.detect();
                self.acquire("acquire", scene);
            }
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "again" => self.acquire("poll", scene),
            "over" => {
                scene.say("could not renew its lease: it is over");
                self.stop(None, scene);
            }
            "renew" => self.renew(scene),
            "answer" if self.part == Part::Leader => self.renew(scene),
            "answer" => self.wait(None, scene),
            _ => {}
        }
    }

    fn stops_at(&self) -> Option<&'static str> {
        Some("over")
    }

    fn view(&self) -> View {
        View::new(self.part).leader(self.leader).token(self.token)
    }
}

fn cast(setup: &Setup, telling: &'static Telling) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, telling.gate);
    for _ in 0..setup.contenders {
        stage.contender(Holder::new(telling));
    }
    let rules = Rules { revision: telling.first_token - 1, ..Rules::default() };
    stage.server(STORE, Store::new(rules));
    Box::new(stage)
}
