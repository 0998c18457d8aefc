//! Redlock: a lock on three of five Redis servers that know nothing of each other.
//!
//! A client asks all five for the lock with a value of its own, and has it if three say yes before its time
//! is up; if not it gives back what it has got and tries again after a while. It trusts the lock for its
//! time to live, less what the asking took and a little for clocks.
//!
//! There is no copy that lags behind. But every server counts time by a clock that somebody can set, and
//! one that starts anew has forgotten what it promised; one of three is enough for two owners. And there is
//! no token: whoever stands still writes when it goes on.

use std::{collections::BTreeSet, time::Duration};

use tenure_replica::Moment;

use super::{
    Algorithm, Scenario, Setup,
    store::{Answer, Ask, Rules, Say, Store, When},
};
use crate::{
    engine::ms,
    stage::{Gate, NodeId, Part, Play, Program, Promise, Scene, Stage, View},
};

const KEY: &str = "leader-lock";
const SERVERS: [&str; 5] = ["s1", "s2", "s3", "s4", "s5"];
const MAJORITY: usize = SERVERS.len() / 2 + 1;

const TTL: Duration = ms(10_000);
const RENEW: Duration = ms(3333);
/// Whoever has not answered by then does not count.
const ROUND: Duration = ms(50);
/// Clocks do not run equally fast: a hundredth, and 2 ms.
const DRIFT: Duration = ms(102);
/// Who has not got it tries again after a time between these.
const RETRY: (Duration, Duration) = (ms(200), ms(700));

pub(super) const REDLOCK: Algorithm = Algorithm {
    name: "redlock",
    about: "SET NX PX on five independent servers; whoever has three of them owns the lock",
    origin: "Sanfilippo's Redlock, and Kleppmann's critique 2016",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        Promise::VacantAtMost(ms(12_000)),
        Promise::SomebodyLeads,
    ],
    contenders: 3,
    patience: Some(ms(15_000)),
    cast,
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "redlock-crash",
        algorithm: &REDLOCK,
        about: "The owner dies, and two of five servers with it. The lock ends after 10 s, and three servers are enough.",
        lasts: Duration::from_secs(40),
        script: "at 5s crash leader\nat 5s crash s1\nat 5s crash s2\n",
        breaks: &[],
    },
    Scenario {
        name: "redlock-clock-jump",
        algorithm: &REDLOCK,
        about: "The owner has three servers and cannot reach two. The clock of one of the three is set ahead: it forgets the lock, and another has three.",
        lasts: Duration::from_secs(30),
        script: "at 0s cut a s4\nat 0s cut a s5\nat 4s clock s3 jumps +20s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "redlock-two-clocks-jump",
        algorithm: &REDLOCK,
        about: "The owner has four servers. The clocks of two of them are set ahead, and with the fifth they are three.",
        lasts: Duration::from_secs(30),
        script: "at 0s cut a s5\nat 4s clock s3 jumps +20s\nat 4s clock s4 jumps +20s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "redlock-restart",
        algorithm: &REDLOCK,
        about: "One of the owner's three servers starts anew. What it promised was in memory only.",
        lasts: Duration::from_secs(30),
        script: "at 0s cut a s4\nat 0s cut a s5\nat 4s crash s3 for 100ms\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "redlock-pause",
        algorithm: &REDLOCK,
        about: "All five servers and their clocks are well. The owner stands still for longer than its lock lasts, and writes when it goes on.",
        lasts: Duration::from_secs(40),
        script: "at 5s pause leader for 20s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

#[derive(Debug)]
struct Owner {
    part: Part,
    leader: Option<NodeId>,
    /// On disk, so that no value is ever used twice.
    rounds: u64,
    value: String,
    asked: Moment,
    granted: BTreeSet<NodeId>,
    /// Whether somebody was seen to have it.
    seen: Option<NodeId>,
}

impl Owner {
    fn new() -> Owner {
        Owner {
            part: Part::Idle,
            leader: None,
            rounds: 0,
            value: String::new(),
            asked: Moment::ZERO,
            granted: BTreeSet::new(),
            seen: None,
        }
    }

    fn ask_all(&mut self, purpose: &'static str, what: &Ask, scene: &mut Scene<'_, Say>) {
        self.rounds += 1;
        for server in SERVERS {
            let to = scene.named(server);
            scene.send(to, Say::Ask { number: self.rounds, purpose, what: what.clone() });
        }
    }

    fn put(&mut self, purpose: &'static str, when: When, scene: &mut Scene<'_, Say>) {
        self.asked = scene.now();
        self.granted.clear();
        self.seen = None;
        let value = self.value.clone();
        let what = Ask::Put { key: KEY, value, when, ttl: Some(TTL), stamp: None };
        self.ask_all(purpose, &what, scene);
        scene.alarm("round", ROUND);
    }

    fn lock(&mut self, scene: &mut Scene<'_, Say>) {
        self.part = Part::Candidate;
        self.value = format!("{}-{}", scene.name(scene.me), self.rounds + 1);
        self.put("poll", When::Missing, scene);
    }

    fn unlock(&mut self, scene: &mut Scene<'_, Say>) {
        let what = Ask::Delete { key: KEY, when: When::Is(self.value.clone()) };
        self.ask_all("give back", &what, scene);
        self.part = Part::Waiting;
        let again = scene.dice().duration(RETRY.0, RETRY.1);
        scene.alarm("again", again);
    }

    fn stop(&mut self, scene: &mut Scene<'_, Say>) {
        scene.step_down();
        ["renew", "valid", "round"].into_iter().for_each(|alarm| scene.cancel(alarm));
        self.leader = None;
        self.unlock(scene);
    }

    /// Three have said yes.
    fn has_it(&mut self, scene: &mut Scene<'_, Say>) {
        let valid = (self.asked + TTL).since(scene.now()).saturating_sub(DRIFT);
        if valid.is_zero() {
            return self.stop(scene);
        }
        scene.cancel("round");
        scene.alarm("valid", valid);
        scene.alarm("renew", RENEW);
        if self.part != Part::Leader {
            scene.detect();
            self.part = Part::Leader;
            self.leader = Some(scene.me);
            scene.lead(None);
        }
    }
}

impl Program<Say> for Owner {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        *self = Owner { rounds: self.rounds, ..Owner::new() };
        scene.alarm("again", if scene.me == 0 { Duration::ZERO } else { RETRY.0 });
    }

    fn receive(&mut self, from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        let Say::Answer { number, answer, purpose } = word else { return };
        if number != self.rounds || purpose == "give back" {
            return;
        }
        match answer {
            Answer::Done { .. } => {
                self.granted.insert(from);
                if self.granted.len() == MAJORITY {
                    self.has_it(scene);
                }
            }
            Answer::Refused(entry) => self.seen = entry.map(|entry| entry.writer).or(self.seen),
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "again" => self.lock(scene),
            "renew" => self.put("renew", When::Is(self.value.clone()), scene),
            "round" if self.part == Part::Leader => {
                scene.say("cannot renew on three servers");
                self.stop(scene);
            }
            "round" => {
                self.leader = self.seen;
                self.unlock(scene);
            }
            "valid" => {
                scene.say("does not trust its lock any more");
                self.stop(scene);
            }
            _ => {}
        }
    }

    fn stops_at(&self) -> Option<&'static str> {
        Some("valid")
    }

    fn view(&self) -> View {
        View::new(self.part).leader(self.leader)
    }
}

fn cast(setup: &Setup) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Open);
    for _ in 0..setup.contenders {
        stage.contender(Owner::new());
    }
    for server in SERVERS {
        let rules = Rules { by_wall: true, durable: false, ..Rules::default() };
        stage.server(server, Store::new(rules));
    }
    Box::new(stage)
}
