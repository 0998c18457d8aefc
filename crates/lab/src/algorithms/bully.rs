//! Bully (Garcia-Molina 1982): whoever has the highest number leads.
//!
//! Who misses the leader asks everybody above: "election". Who is asked answers "alive" and asks those
//! above in turn. Who hears no answer is the highest that lives, and tells all others: "coordinator".
//!
//! It believes that whoever does not answer in time is dead. In a network that can be cut, or is slow
//! for a moment, that is not so, and both sides have a leader.

use std::{fmt, time::Duration};

use super::{Algorithm, Scenario, Setup};
use crate::{
    engine::ms,
    stage::{Gate, NodeId, Part, Play, Program, Promise, Scene, Stage, View, Word},
};

pub(super) const BULLY: Algorithm = Algorithm {
    name: "bully",
    about: "whoever has the highest number leads; who does not answer in time is taken for dead",
    origin: "Garcia-Molina 1982",
    promises: &[Promise::OneBeliever, Promise::OneWriter, Promise::SomebodyLeads],
    contenders: 5,
    patience: Some(ms(3000)),
    cast,
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "bully-crash",
        algorithm: &BULLY,
        about: "The leader dies; the next highest leads. When it comes back it takes over again, as the highest always does, and for as long as the news of that travels two believe to lead.",
        lasts: Duration::from_secs(10),
        script: "at 2s crash e for 4s\n",
        breaks: &[Promise::OneBeliever],
    },
    Scenario {
        name: "bully-partition",
        algorithm: &BULLY,
        about: "The network is cut in two: each side takes the other for dead, and each has a leader.",
        lasts: Duration::from_secs(10),
        script: "at 2s split a b | c d e for 5s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "bully-pause",
        algorithm: &BULLY,
        about: "The leader pauses for longer than the others wait; when it goes on it writes beside its successor.",
        lasts: Duration::from_secs(10),
        script: "at 2s pause e for 3s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

/// The leader says that it lives so often.
const HEARTBEAT: Duration = ms(100);
/// Who has heard nothing for so long takes the leader for dead.
const SILENCE: Duration = ms(500);
/// Who lives answers within this time, or so one hopes.
const ANSWER: Duration = ms(100);
/// Whoever said that it lives says within this time who leads.
const OUTCOME: Duration = ms(500);

#[derive(Clone, Debug)]
enum Say {
    Election,
    Alive,
    Coordinator,
    Heartbeat,
}

impl fmt::Display for Say {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Say::Election => "is anybody above me alive?",
            Say::Alive => "I am; I will see to it",
            Say::Coordinator => "I lead",
            Say::Heartbeat => "I am still here",
        })
    }
}

impl Word for Say {
    fn kind(&self) -> &'static str {
        match self {
            Say::Election => "election",
            Say::Alive => "alive",
            Say::Coordinator => "coordinator",
            Say::Heartbeat => "heartbeat",
        }
    }

    fn is_routine(&self) -> bool {
        matches!(self, Say::Heartbeat)
    }
}

#[derive(Debug, Default)]
struct Bully {
    part: Part,
    leader: Option<NodeId>,
}

impl Bully {
    fn ask(&mut self, scene: &mut Scene<'_, Say>) {
        self.part = Part::Candidate;
        self.leader = None;
        scene.step_down();
        let me = scene.me;
        scene.contenders().filter(|other| *other > me).for_each(|to| scene.send(to, Say::Election));
        scene.cancel("silence");
        scene.alarm("answer", ANSWER);
    }

    fn win(&mut self, scene: &mut Scene<'_, Say>) {
        self.part = Part::Leader;
        self.leader = Some(scene.me);
        scene.cancel("silence");
        scene.broadcast(&Say::Coordinator);
        scene.lead(None);
        scene.alarm("heartbeat", HEARTBEAT);
    }

    fn follow(&mut self, leader: NodeId, scene: &mut Scene<'_, Say>) {
        self.part = Part::Follower;
        self.leader = Some(leader);
        scene.step_down();
        scene.cancel("answer");
        scene.cancel("heartbeat");
        scene.alarm("silence", SILENCE);
    }
}

impl Program<Say> for Bully {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        *self = Bully::default();
        self.ask(scene);
    }

    fn receive(&mut self, from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match word {
            Say::Election => {
                scene.send(from, Say::Alive);
                if self.part != Part::Candidate {
                    self.ask(scene);
                }
            }
            Say::Alive => {
                scene.cancel("answer");
                scene.alarm("silence", OUTCOME);
            }
            // Somebody below me thinks that it leads.
            Say::Coordinator | Say::Heartbeat if from < scene.me => {
                if self.part != Part::Candidate {
                    self.ask(scene);
                }
            }
            Say::Coordinator => self.follow(from, scene),
            Say::Heartbeat => {
                if self.leader == Some(from) {
                    scene.alarm("silence", SILENCE);
                } else {
                    self.follow(from, scene);
                }
            }
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "heartbeat" if self.part == Part::Leader => {
                scene.broadcast(&Say::Heartbeat);
                scene.alarm("heartbeat", HEARTBEAT);
            }
            "answer" => self.win(scene),
            "silence" => {
                scene.detect();
                self.ask(scene);
            }
            _ => {}
        }
    }

    fn view(&self) -> View {
        View::new(self.part).leader(self.leader)
    }
}

fn cast(setup: &Setup) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Open);
    for _ in 0..setup.contenders {
        stage.contender(Bully::default());
    }
    Box::new(stage)
}
