//! Ping: `if ping(other_nodes): am_leader = True`.
//!
//! The anti-pattern of many first drafts. At a fixed interval each process pings all others. A process that hears from
//! others, but from none with a lower number, leads. It takes "unreachable" for "dead": when the network is cut, the
//! lowest of each side leads.

use std::{collections::BTreeSet, fmt, time::Duration};

use super::{Algorithm, Setup, Story};
use crate::{
    engine::ms,
    stage::{
        Actor, AlgorithmRun, Context, ProcessId, ProcessRole, ProcessView, Promise,
        ProtocolMessage, Stage, StorageGate,
    },
};

pub(super) const PING: Algorithm = Algorithm {
    name: "ping",
    about: "a process that reaches others, but none before itself, leads",
    origin: "an anti-pattern: `if ping(other_nodes): am_leader = True`",
    promises: &[Promise::OneBeliever, Promise::OneWriter, Promise::LeaderAtEnd],
    contenders: 5,
    patience: Some(ms(2000)),
    build,
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "ping-crash",
        algorithm: &PING,
        about: "The leader dies and does not answer any more; the next one leads. It works, so it gets shipped.",
        lasts: Duration::from_secs(10),
        script: "at 3s crash a\n",
        breaks: &[],
    },
    Story {
        name: "ping-partition",
        algorithm: &PING,
        about: "The network is cut in two. On each side processes answer, and on each side one leads.",
        lasts: Duration::from_secs(10),
        script: "at 3s split a b | c d e for 5s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "ping-slow",
        algorithm: &PING,
        about: "The leader is slow to answer for a moment and is taken for dead, though it still writes.",
        lasts: Duration::from_secs(10),
        script: "at 3s slow a by 60ms for 3s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

/// How often each process pings.
const INTERVAL: Duration = ms(500);
/// A process that has not answered within this time is taken for dead.
const ANSWER: Duration = ms(100);

#[derive(Clone, Debug)]
enum PingMessage {
    Ping,
    Pong,
}

impl fmt::Display for PingMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PingMessage::Ping => "are you there?",
            PingMessage::Pong => "yes",
        })
    }
}

impl ProtocolMessage for PingMessage {
    fn kind(&self) -> &'static str {
        match self {
            PingMessage::Ping => "ping",
            PingMessage::Pong => "pong",
        }
    }

    fn is_routine(&self) -> bool {
        true
    }
}

#[derive(Debug, Default)]
struct Pinger {
    role: ProcessRole,
    leader: Option<ProcessId>,
    answered: BTreeSet<ProcessId>,
}

impl Pinger {
    fn ask(&mut self, context: &mut Context<'_, PingMessage>) {
        self.answered.clear();
        context.broadcast(&PingMessage::Ping);
        context.alarm("answer", ANSWER);
        context.alarm("ask", INTERVAL);
    }

    fn conclude(&mut self, context: &mut Context<'_, PingMessage>) {
        let before = self.leader;
        self.leader = match self.answered.first() {
            Some(lowest) => Some(*lowest.min(&context.me)),
            None => None,
        };
        if before.is_some_and(|before| before != context.me && !self.answered.contains(&before)) {
            context.detect();
        }
        let am_leader = self.leader == Some(context.me);
        match (self.role == ProcessRole::Leader, am_leader) {
            (false, true) => context.lead(None),
            (true, false) => context.step_down(),
            _ => {}
        }
        self.role = match self.leader {
            Some(_) if am_leader => ProcessRole::Leader,
            Some(_) => ProcessRole::Follower,
            None => ProcessRole::Idle,
        };
    }
}

impl Actor<PingMessage> for Pinger {
    fn start(&mut self, context: &mut Context<'_, PingMessage>) {
        *self = Pinger::default();
        self.ask(context);
    }

    fn receive(
        &mut self,
        from: ProcessId,
        message: PingMessage,
        context: &mut Context<'_, PingMessage>,
    ) {
        match message {
            PingMessage::Ping => context.send(from, PingMessage::Pong),
            PingMessage::Pong => {
                self.answered.insert(from);
            }
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, PingMessage>) {
        match alarm {
            "ask" => self.ask(context),
            _ => self.conclude(context),
        }
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(self.role).leader(self.leader)
    }
}

fn build(setup: &Setup) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Open);
    for _ in 0..setup.contenders {
        stage.add_contender(Pinger::default());
    }
    Box::new(stage)
}
