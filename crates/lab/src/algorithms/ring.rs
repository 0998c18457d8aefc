//! Ring: an election goes round, and every live process signs it.
//!
//! A process that misses the leader sends ELECTION with its own number to its neighbour. Each adds its number and passes
//! it on; a neighbour that does not confirm in time is skipped. When the list is back where it has been before, its highest
//! number is the coordinator, and all are told.
//!
//! There is one message, and it takes time: a process that dies with it ends the election, and all others wait until their
//! timeout. And as with the bully, a process that does not answer is taken for dead: a network that is cut in two is two
//! rings.

use std::{fmt, time::Duration};

use super::{Algorithm, Setup, Story};
use crate::{
    engine::ms,
    stage::{
        Actor, AlgorithmRun, Context, ProcessId, ProcessRole, ProcessView, Promise,
        ProtocolMessage, Stage, StorageGate,
    },
};

/// The longest time, if no process dies with the election.
const AWAY_MAX: Promise = Promise::VacantAtMost(ms(1500));

pub(super) const RING: Algorithm = Algorithm {
    name: "ring",
    about: "an election is passed from neighbour to neighbour; the highest that signed it leads",
    origin: "Chang and Roberts 1979, Le Lann 1977",
    promises: &[Promise::OneBeliever, Promise::OneWriter, Promise::LeaderAtEnd, AWAY_MAX],
    contenders: 5,
    patience: Some(ms(4000)),
    build,
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "ring-crash",
        algorithm: &RING,
        about: "The leader dies, the election goes round without it, and the highest left leads. When the old leader is back it follows.",
        lasts: Duration::from_secs(10),
        script: "at 2s crash e for 4s\n",
        breaks: &[],
    },
    Story {
        name: "ring-token",
        algorithm: &RING,
        about: "The leader dies, and then the process that has the election. All others wait for an outcome that never comes, and only then begin again.",
        lasts: Duration::from_secs(10),
        script: "at 2s crash e\nat 2.75s crash d\n",
        breaks: &[AWAY_MAX],
    },
    Story {
        name: "ring-partition",
        algorithm: &RING,
        about: "The network is cut in two, and each half closes to a ring with a leader of its own.",
        lasts: Duration::from_secs(10),
        script: "at 2s split a b | c d e for 5s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

/// How often the leader sends a heartbeat.
const HEARTBEAT: Duration = ms(100);
/// After this much silence the leader is taken for dead.
const SILENCE: Duration = ms(500);
/// The added silence for each number, so that not all begin an election at once.
const STAGGER: Duration = ms(150);
/// How long a process takes to sign and pass on.
const SIGN: Duration = ms(100);
/// How long a confirmation is waited for.
const CONFIRM: Duration = ms(100);
/// How long the outcome is waited for, for each process.
const OUTCOME: Duration = ms(200);

#[derive(Clone, Debug)]
enum RingMessage {
    /// With the numbers of all that have signed.
    Election(Vec<ProcessId>),
    Confirm,
    Coordinator(ProcessId),
    Heartbeat,
}

impl fmt::Display for RingMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RingMessage::Election(signed) => write!(f, "election, signed by {}", names(signed)),
            RingMessage::Confirm => f.write_str("I have it"),
            RingMessage::Coordinator(leader) => {
                write!(f, "{} is the coordinator", names(&[*leader]))
            }
            RingMessage::Heartbeat => f.write_str("I am still here"),
        }
    }
}

/// The names of contenders, as on the stage.
fn names(signed: &[ProcessId]) -> String {
    let name = |id: &ProcessId| match u8::try_from(*id) {
        Ok(id @ 0..26) => char::from(b'a' + id).to_string(),
        _ => format!("n{id}"),
    };
    signed.iter().map(name).collect::<Vec<_>>().join(", ")
}

impl ProtocolMessage for RingMessage {
    fn kind(&self) -> &'static str {
        match self {
            RingMessage::Election(_) => "election",
            RingMessage::Confirm => "confirm",
            RingMessage::Coordinator(_) => "coordinator",
            RingMessage::Heartbeat => "heartbeat",
        }
    }

    fn is_routine(&self) -> bool {
        matches!(self, RingMessage::Heartbeat)
    }
}

#[derive(Debug, Default)]
struct Ring {
    role: ProcessRole,
    leader: Option<ProcessId>,
    /// The election that it has to pass on.
    token: Option<Vec<ProcessId>>,
    /// The neighbour to which it offers the election.
    neighbour: Option<ProcessId>,
}

impl Ring {
    fn watch(context: &mut Context<'_, RingMessage>) {
        context.alarm("silence", SILENCE + STAGGER * context.me as u32);
    }

    fn begin(&mut self, context: &mut Context<'_, RingMessage>) {
        self.token = Some(vec![context.me]);
        self.neighbour = None;
        self.await_outcome(context);
        self.pass_on(context);
    }

    fn await_outcome(&mut self, context: &mut Context<'_, RingMessage>) {
        self.role = ProcessRole::Candidate;
        self.leader = None;
        let members = context.contenders().count() as u32;
        context.alarm("silence", OUTCOME * members + STAGGER * context.me as u32);
    }

    /// Offers the election to the next in the ring, after one that did not confirm.
    fn pass_on(&mut self, context: &mut Context<'_, RingMessage>) {
        let Some(signed) = self.token.clone() else { return };
        let members = context.contenders().count() as ProcessId;
        let next = (self.neighbour.unwrap_or(context.me) + 1) % members;
        if next == context.me {
            // All others are dead, as far as it knows.
            self.token = None;
            return self.announce(&signed, context);
        }
        self.neighbour = Some(next);
        context.send(next, RingMessage::Election(signed));
        context.alarm("confirm", CONFIRM);
    }

    fn take(
        &mut self,
        from: ProcessId,
        mut signed: Vec<ProcessId>,
        context: &mut Context<'_, RingMessage>,
    ) {
        context.send(from, RingMessage::Confirm);
        if signed.contains(&context.me) {
            return self.announce(&signed, context);
        }
        // One election is enough: another that goes round is dropped.
        if self.role == ProcessRole::Leader || self.token.is_some() {
            return;
        }
        signed.push(context.me);
        self.token = Some(signed);
        self.neighbour = None;
        self.await_outcome(context);
        context.alarm("sign", SIGN);
    }

    fn announce(&mut self, signed: &[ProcessId], context: &mut Context<'_, RingMessage>) {
        let highest = signed.iter().copied().max().unwrap_or(context.me);
        context.broadcast(&RingMessage::Coordinator(highest));
        self.follow(highest, context);
    }

    fn follow(&mut self, leader: ProcessId, context: &mut Context<'_, RingMessage>) {
        self.leader = Some(leader);
        if leader != context.me {
            self.role = ProcessRole::Follower;
            context.step_down();
            context.cancel("heartbeat");
            Ring::watch(context);
        } else if self.role != ProcessRole::Leader {
            self.role = ProcessRole::Leader;
            context.cancel("silence");
            context.lead(None);
            context.broadcast(&RingMessage::Heartbeat);
            context.alarm("heartbeat", HEARTBEAT);
        }
    }
}

impl Actor<RingMessage> for Ring {
    fn start(&mut self, context: &mut Context<'_, RingMessage>) {
        *self = Ring::default();
        Ring::watch(context);
    }

    fn receive(
        &mut self,
        from: ProcessId,
        message: RingMessage,
        context: &mut Context<'_, RingMessage>,
    ) {
        match message {
            RingMessage::Election(signed) => self.take(from, signed, context),
            RingMessage::Confirm if self.neighbour == Some(from) => {
                self.token = None;
                self.neighbour = None;
                context.cancel("confirm");
            }
            RingMessage::Confirm => {}
            RingMessage::Coordinator(leader) => self.follow(leader, context),
            // Of two leaders the higher stays.
            RingMessage::Heartbeat if self.role == ProcessRole::Leader && from < context.me => {}
            RingMessage::Heartbeat if self.leader.is_none_or(|leader| leader <= from) => {
                self.follow(from, context);
            }
            RingMessage::Heartbeat => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, RingMessage>) {
        match alarm {
            "heartbeat" if self.role == ProcessRole::Leader => {
                context.broadcast(&RingMessage::Heartbeat);
                context.alarm("heartbeat", HEARTBEAT);
            }
            "sign" | "confirm" => self.pass_on(context),
            "silence" => {
                context.detect();
                self.begin(context);
            }
            _ => {}
        }
    }

    fn view(&self) -> ProcessView {
        let view = ProcessView::new(self.role).leader(self.leader);
        match &self.token {
            Some(signed) => view.fact("election", names(signed)),
            None => view,
        }
    }
}

fn build(setup: &Setup) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Open);
    for _ in 0..setup.contenders {
        stage.add_contender(Ring::default());
    }
    Box::new(stage)
}
