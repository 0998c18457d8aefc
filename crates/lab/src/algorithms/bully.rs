//! Bully (Garcia-Molina 1982): the highest number leads.
//!
//! A process that misses the leader asks all above it: "election". Each answers "alive" and asks those above it in turn.
//! A process without an answer is the highest alive, and tells all others: "coordinator".
//!
//! It takes a process that does not answer in time for dead. In a network that is cut, or slow for a moment, that is
//! wrong, and both sides have a leader.

use std::{fmt, time::Duration};

use super::{Algorithm, Setup, Story};
use crate::{
    engine::ms,
    stage::{
        Actor, AlgorithmRun, Context, ProcessId, ProcessRole, ProcessView, Promise,
        ProtocolMessage, Stage, StorageGate,
    },
};

pub(super) const BULLY: Algorithm = Algorithm {
    name: "bully",
    about: "the highest number leads; a process that does not answer in time is taken for dead",
    origin: "Garcia-Molina 1982",
    promises: &[Promise::OneBeliever, Promise::OneWriter, Promise::LeaderAtEnd],
    contenders: 5,
    patience: Some(ms(3000)),
    build,
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "bully-crash",
        algorithm: &BULLY,
        about: "The leader dies; the next highest leads. When it comes back it takes over again, as the highest always does, and for as long as the news of that travels two believe to lead.",
        lasts: Duration::from_secs(10),
        script: "at 2s crash e for 4s\n",
        breaks: &[Promise::OneBeliever],
    },
    Story {
        name: "bully-partition",
        algorithm: &BULLY,
        about: "The network is cut in two: each side takes the other for dead, and each has a leader.",
        lasts: Duration::from_secs(10),
        script: "at 2s split a b | c d e for 5s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "bully-pause",
        algorithm: &BULLY,
        about: "The leader pauses for longer than the others wait; when it goes on it writes beside its successor.",
        lasts: Duration::from_secs(10),
        script: "at 2s pause e for 3s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

/// How often the leader sends a heartbeat.
const HEARTBEAT: Duration = ms(100);
/// After this much silence the leader is taken for dead.
const SILENCE: Duration = ms(500);
/// How long answers are waited for.
const ANSWER: Duration = ms(100);
/// How long the outcome is waited for after an answer.
const OUTCOME: Duration = ms(500);

#[derive(Clone, Debug)]
enum BullyMessage {
    Election,
    Alive,
    Coordinator,
    Heartbeat,
}

impl fmt::Display for BullyMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BullyMessage::Election => "is a higher process alive?",
            BullyMessage::Alive => "I am; I will see to it",
            BullyMessage::Coordinator => "I lead",
            BullyMessage::Heartbeat => "I am still here",
        })
    }
}

impl ProtocolMessage for BullyMessage {
    fn kind(&self) -> &'static str {
        match self {
            BullyMessage::Election => "election",
            BullyMessage::Alive => "alive",
            BullyMessage::Coordinator => "coordinator",
            BullyMessage::Heartbeat => "heartbeat",
        }
    }

    fn is_routine(&self) -> bool {
        matches!(self, BullyMessage::Heartbeat)
    }
}

#[derive(Debug, Default)]
struct Bully {
    role: ProcessRole,
    leader: Option<ProcessId>,
}

impl Bully {
    fn ask(&mut self, context: &mut Context<'_, BullyMessage>) {
        self.role = ProcessRole::Candidate;
        self.leader = None;
        context.step_down();
        let me = context.me;
        context
            .contenders()
            .filter(|other| *other > me)
            .for_each(|to| context.send(to, BullyMessage::Election));
        context.cancel("silence");
        context.alarm("answer", ANSWER);
    }

    fn win(&mut self, context: &mut Context<'_, BullyMessage>) {
        self.role = ProcessRole::Leader;
        self.leader = Some(context.me);
        context.cancel("silence");
        context.broadcast(&BullyMessage::Coordinator);
        context.lead(None);
        context.alarm("heartbeat", HEARTBEAT);
    }

    fn follow(&mut self, leader: ProcessId, context: &mut Context<'_, BullyMessage>) {
        self.role = ProcessRole::Follower;
        self.leader = Some(leader);
        context.step_down();
        context.cancel("answer");
        context.cancel("heartbeat");
        context.alarm("silence", SILENCE);
    }
}

impl Actor<BullyMessage> for Bully {
    fn start(&mut self, context: &mut Context<'_, BullyMessage>) {
        *self = Bully::default();
        self.ask(context);
    }

    fn receive(
        &mut self,
        from: ProcessId,
        message: BullyMessage,
        context: &mut Context<'_, BullyMessage>,
    ) {
        match message {
            BullyMessage::Election => {
                context.send(from, BullyMessage::Alive);
                if self.role != ProcessRole::Candidate {
                    self.ask(context);
                }
            }
            BullyMessage::Alive => {
                context.cancel("answer");
                context.alarm("silence", OUTCOME);
            }
            // A lower process believes to lead.
            BullyMessage::Coordinator | BullyMessage::Heartbeat if from < context.me => {
                if self.role != ProcessRole::Candidate {
                    self.ask(context);
                }
            }
            BullyMessage::Coordinator => self.follow(from, context),
            BullyMessage::Heartbeat => {
                if self.leader == Some(from) {
                    context.alarm("silence", SILENCE);
                } else {
                    self.follow(from, context);
                }
            }
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, BullyMessage>) {
        match alarm {
            "heartbeat" if self.role == ProcessRole::Leader => {
                context.broadcast(&BullyMessage::Heartbeat);
                context.alarm("heartbeat", HEARTBEAT);
            }
            "answer" => self.win(context),
            "silence" => {
                context.detect();
                self.ask(context);
            }
            _ => {}
        }
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(self.role).leader(self.leader)
    }
}

fn build(setup: &Setup) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Open);
    for _ in 0..setup.contenders {
        stage.add_contender(Bully::default());
    }
    Box::new(stage)
}
