//! Ping: `if ping(other_nodes): am_leader = True`.
//!
//! The anti-pattern of many a first draft. Every so often each process asks all others whether they are
//! there. Who hears from somebody, but from nobody whose number is lower, leads. It takes "I cannot
//! hear it" for "it is not there": when the network is cut, the lowest of each side leads.

use std::{collections::BTreeSet, fmt, time::Duration};

use super::{Algorithm, Scenario, Setup};
use crate::{
    engine::ms,
    stage::{Gate, NodeId, Part, Play, Program, Promise, Scene, Stage, View, Word},
};

pub(super) const PING: Algorithm = Algorithm {
    name: "ping",
    about: "who can reach others, and nobody before itself, says that it leads",
    origin: "an anti-pattern: `if ping(other_nodes): am_leader = True`",
    promises: &[Promise::OneBeliever, Promise::OneWriter, Promise::SomebodyLeads],
    contenders: 5,
    patience: Some(ms(2000)),
    cast,
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "ping-crash",
        algorithm: &PING,
        about: "The leader dies and does not answer any more; the next one leads. It works, and so it is shipped.",
        lasts: Duration::from_secs(10),
        script: "at 3s crash a\n",
        breaks: &[],
    },
    Scenario {
        name: "ping-partition",
        algorithm: &PING,
        about: "The network is cut in two. On each side somebody answers, and on each side somebody leads.",
        lasts: Duration::from_secs(10),
        script: "at 3s split a b | c d e for 5s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "ping-slow",
        algorithm: &PING,
        about: "The leader is slow to answer for a moment and is taken for dead, though it goes on to write.",
        lasts: Duration::from_secs(10),
        script: "at 3s slow a by 60ms for 3s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

/// Everybody asks so often.
const INTERVAL: Duration = ms(500);
/// Who has not answered within this time is not there.
const ANSWER: Duration = ms(100);

#[derive(Clone, Debug)]
enum Say {
    Ping,
    Pong,
}

impl fmt::Display for Say {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Say::Ping => "are you there?",
            Say::Pong => "yes",
        })
    }
}

impl Word for Say {
    fn kind(&self) -> &'static str {
        match self {
            Say::Ping => "ping",
            Say::Pong => "pong",
        }
    }

    fn is_routine(&self) -> bool {
        true
    }
}

#[derive(Debug, Default)]
struct Pinger {
    part: Part,
    leader: Option<NodeId>,
    answered: BTreeSet<NodeId>,
}

impl Pinger {
    fn ask(&mut self, scene: &mut Scene<'_, Say>) {
        self.answered.clear();
        scene.broadcast(&Say::Ping);
        scene.alarm("answer", ANSWER);
        scene.alarm("ask", INTERVAL);
    }

    fn conclude(&mut self, scene: &mut Scene<'_, Say>) {
        let before = self.leader;
        self.leader = match self.answered.first() {
            Some(lowest) => Some(*lowest.min(&scene.me)),
            None => None,
        };
        if before.is_some_and(|before| before != scene.me && !self.answered.contains(&before)) {
            scene.detect();
        }
        let am_leader = self.leader == Some(scene.me);
        match (self.part == Part::Leader, am_leader) {
            (false, true) => scene.lead(None),
            (true, false) => scene.step_down(),
            _ => {}
        }
        self.part = match self.leader {
            Some(_) if am_leader => Part::Leader,
            Some(_) => Part::Follower,
            None => Part::Idle,
        };
    }
}

impl Program<Say> for Pinger {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        *self = Pinger::default();
        self.ask(scene);
    }

    fn receive(&mut self, from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match word {
            Say::Ping => scene.send(from, Say::Pong),
            Say::Pong => {
                self.answered.insert(from);
            }
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "ask" => self.ask(scene),
            _ => self.conclude(scene),
        }
    }

    fn view(&self) -> View {
        View::new(self.part).leader(self.leader)
    }
}

fn cast(setup: &Setup) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Open);
    for _ in 0..setup.contenders {
        stage.contender(Pinger::default());
    }
    Box::new(stage)
}
