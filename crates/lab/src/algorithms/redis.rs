//! A lock on one Redis server: `SET key value NX PX ttl`, with a value of its own, and unlocked only if that
//! value is still there.
//!
//! That is right as long as the server lives. It sends what it has to its copy, now and then, and does not
//! wait for it. When it dies a sentinel makes the copy the new server, and a lock that had not got there
//! yet is free again: two own it.

use std::time::Duration;

use super::{
    Algorithm, Scenario, Setup,
    store::{Answer, Ask, Line, Rules, Say, Store, When},
};
use crate::{
    engine::ms,
    stage::{Gate, NodeId, Part, Play, Program, Promise, Scene, Stage, View},
};

const KEY: &str = "leader-lock";
const PRIMARY: &str = "primary";
const REPLICA: &str = "replica";
const SENTINEL: &str = "sentinel";

const TTL: Duration = ms(10_000);
const RENEW: Duration = ms(3333);
const POLL: Duration = ms(500);
/// Somebody who has the lock does so much, unlocks it, and wants it again after that.
const HOLD: Duration = ms(20_000);
const REST: Duration = ms(5000);

/// A sentinel asks so often, and takes a server that has not answered for so long for dead.
const PING: Duration = ms(100);
const SILENCE: Duration = ms(500);

/// Judged at each unlock.
const OWN_LOCK_ONLY: Promise = Promise::Own(OWN_LOCK_ONLY_TEXT);
const OWN_LOCK_ONLY_TEXT: &str = "nobody deletes somebody else's lock";

pub(super) const REDIS: Algorithm = Algorithm {
    name: "redis",
    about: "SET NX PX with a value of its own, compare-and-delete, and a copy that lags behind",
    origin: "Redis SET NX, replication and Sentinel",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        OWN_LOCK_ONLY,
        Promise::VacantAtMost(ms(10_600)),
        Promise::SomebodyLeads,
    ],
    contenders: 3,
    patience: Some(ms(12_000)),
    cast,
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "redis-crash",
        algorithm: &REDIS,
        about: "The owner dies, and its lock ends after 10 s.",
        lasts: Duration::from_secs(40),
        script: "at 5s crash leader\n",
        breaks: &[],
    },
    Scenario {
        name: "redis-failover",
        algorithm: &REDIS,
        about: "The server dies before it has copied the lock. The copy takes over, knows of no lock, and gives it to another.",
        lasts: Duration::from_secs(35),
        script: "at 500ms crash primary\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "redis-failover-copied",
        algorithm: &REDIS,
        about: "The server dies when the copy has the lock: with luck, nothing happens.",
        lasts: Duration::from_secs(35),
        script: "at 5.5s crash primary\n",
        breaks: &[],
    },
    Scenario {
        name: "redis-pause",
        algorithm: &REDIS,
        about: "The owner stands still until its lock is another's. It does not delete it, as the value is not its own; but there is no token, and what it writes before that is taken.",
        lasts: Duration::from_secs(35),
        script: "at 2s pause leader for 25s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

#[derive(Debug, Default)]
struct Owner {
    line: Line,
    /// Whom it asks; the sentinel knows.
    server: Option<NodeId>,
    part: Part,
    leader: Option<NodeId>,
    /// On disk, so that no value is ever used twice.
    locks: u64,
    value: String,
}

impl Owner {
    fn ask(&mut self, purpose: &'static str, what: Ask, scene: &mut Scene<'_, Say>) {
        let server = self.server.unwrap_or_else(|| scene.named(PRIMARY));
        self.line.ask(server, purpose, what, scene);
    }

    fn put(&mut self, purpose: &'static str, when: When, scene: &mut Scene<'_, Say>) {
        let value = self.value.clone();
        self.ask(purpose, Ask::Put { key: KEY, value, when, ttl: Some(TTL), stamp: None }, scene);
    }

    fn lock(&mut self, scene: &mut Scene<'_, Say>) {
        self.part = Part::Waiting;
        self.locks += 1;
        self.value = format!("{}-{}", scene.name(scene.me), self.locks);
        self.put("poll", When::Missing, scene);
    }

    fn unlock(&mut self, scene: &mut Scene<'_, Say>) {
        scene.step_down();
        scene.cancel("renew");
        self.part = Part::Idle;
        self.leader = None;
        let when = When::Is(self.value.clone());
        self.ask("unlock", Ask::Delete { key: KEY, when }, scene);
        scene.alarm("again", REST);
    }

    fn answer(&mut self, purpose: &str, answer: Answer, scene: &mut Scene<'_, Say>) {
        match (purpose, answer) {
            ("poll", Answer::Done { .. }) => {
                scene.detect();
                self.part = Part::Leader;
                self.leader = Some(scene.me);
                scene.lead(None);
                scene.alarm("renew", RENEW);
                scene.alarm("hold", HOLD);
            }
            ("poll", Answer::Refused(entry)) => {
                self.leader = entry.map(|entry| entry.writer);
                scene.alarm("again", POLL);
            }
            ("renew", Answer::Done { .. }) => scene.alarm("renew", RENEW),
            ("renew", _) => {
                scene.say("learns that the lock is not its own any more");
                scene.step_down();
                scene.cancel("hold");
                self.part = Part::Waiting;
                scene.alarm("again", POLL);
            }
            ("unlock", Answer::Done { before: Some(before), .. }) if before.writer != scene.me => {
                scene.broke(OWN_LOCK_ONLY_TEXT, "a lock was deleted by somebody else");
            }
            ("unlock", _) => scene.kept(OWN_LOCK_ONLY_TEXT),
            _ => {}
        }
    }
}

impl Program<Say> for Owner {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        *self = Owner { locks: self.locks, ..Owner::default() };
        scene.alarm("again", Duration::ZERO);
    }

    fn receive(&mut self, _from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match word {
            Say::Answer { number, purpose, answer } if self.line.hears(number, scene) => {
                self.answer(purpose, answer, scene);
            }
            Say::Promoted(server) => self.server = Some(server),
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "again" => self.lock(scene),
            "renew" => self.put("renew", When::Is(self.value.clone()), scene),
            "hold" => self.unlock(scene),
            "answer" => {
                let sentinel = scene.named(SENTINEL);
                scene.send(sentinel, Say::Ping);
                match self.part {
                    Part::Leader => self.put("renew", When::Is(self.value.clone()), scene),
                    Part::Idle => {}
                    _ => scene.alarm("again", POLL),
                }
            }
            _ => {}
        }
    }

    fn view(&self) -> View {
        View::new(self.part).leader(self.leader)
    }
}

/// Looks after the server, and makes its copy the server when it is dead.
#[derive(Debug, Default)]
struct Sentinel {
    promoted: bool,
}

impl Sentinel {
    fn server(&self, scene: &Scene<'_, Say>) -> NodeId {
        scene.named(if self.promoted { REPLICA } else { PRIMARY })
    }
}

impl Program<Say> for Sentinel {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        scene.alarm("ping", PING);
        scene.alarm("silence", SILENCE);
    }

    fn receive(&mut self, from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match word {
            Say::Ping => scene.send(from, Say::Promoted(self.server(scene))),
            Say::Pong if !self.promoted => scene.alarm("silence", SILENCE),
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "silence" => {
                scene.say("takes the primary for dead and promotes its copy");
                self.promoted = true;
                let replica = self.server(scene);
                scene.send(replica, Say::Promoted(replica));
                scene.contenders().for_each(|to| scene.send(to, Say::Promoted(replica)));
            }
            "ping" if !self.promoted => {
                let primary = self.server(scene);
                scene.send(primary, Say::Ping);
                scene.alarm("ping", PING);
            }
            _ => {}
        }
    }

    fn view(&self) -> View {
        View::new(Part::Server).fact("promoted", self.promoted)
    }
}

fn cast(setup: &Setup) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Open);
    for _ in 0..setup.contenders {
        stage.contender(Owner::default());
    }
    let rules = Rules { by_wall: true, ..Rules::default() };
    stage.server(PRIMARY, Store::new(Rules { copied_to: Some(REPLICA), ..rules }));
    stage.server(REPLICA, Store::new(rules));
    stage.server(SENTINEL, Sentinel::default());
    Box::new(stage)
}
