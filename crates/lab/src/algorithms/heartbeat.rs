//! Two ways to detect a dead leader, side by side: missed heartbeats, and a lease that ends.
//!
//! - `heartbeat`: the leader sends a heartbeat every 2 s. A process that has missed three in a row takes it for dead and
//!   campaigns; after 5 s the highest of those that campaign leads. Three times 2 s and 5 s are 11 s, unless another
//!   process dies meanwhile: then it all begins again, and there is no bound.
//! - `heartbeat-lease`: the leader leads only for as long as a majority has granted it a lease: 10 s from each renewal.
//!   When the lease has ended its grantors campaign, and 200 ms later they grant it to the highest: 10.2 s. A leader
//!   that cannot renew stops by itself before another may lead.
//!
//! The first needs no majority and is wrong when the network is cut; the second needs clocks that run at about the same
//! rate.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use tenure_replica::Moment;

use super::{Algorithm, Setup, Story};
use crate::{
    engine::ms,
    stage::{
        Actor, AlgorithmRun, Context, ProcessId, ProcessRole, ProcessView, Promise,
        ProtocolMessage, Stage, StorageGate,
    },
};

const PROMISES: &[Promise] =
    &[Promise::OneBeliever, Promise::OneWriter, Promise::LeaderAtEnd, HEARTBEAT_AWAY_MAX];
const LEASE_PROMISES: &[Promise] =
    &[Promise::OneBeliever, Promise::OneWriter, Promise::LeaderAtEnd, LEASE_AWAY_MAX];
/// 3 × 2 s + 5 s.
const HEARTBEAT_AWAY_MAX: Promise = Promise::VacantAtMost(ms(11_000));
/// 10 s + 200 ms, and the time of messages.
const LEASE_AWAY_MAX: Promise = Promise::VacantAtMost(ms(10_250));

pub(super) const HEARTBEAT: Algorithm = Algorithm {
    name: "heartbeat",
    about: "three missed heartbeats of 2 s, then an election of 5 s",
    origin: "the usual failure detector: missed × interval + election",
    promises: PROMISES,
    contenders: 5,
    patience: Some(ms(12_000)),
    build: |setup| build(setup, &MISSED),
};

pub(super) const LEASED_HEARTBEAT: Algorithm = Algorithm {
    name: "heartbeat-lease",
    about: "a majority grants a lease of 10 s; 200 ms after its end it grants the next",
    origin: "Gray and Cheriton 1989: TTL + election",
    promises: LEASE_PROMISES,
    contenders: 5,
    patience: Some(ms(12_000)),
    build: |setup| build(setup, &LEASE),
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "heartbeat-crash",
        algorithm: &HEARTBEAT,
        about: "The leader dies just after a heartbeat: three are missed, the election takes its time, and there was no leader for 11 s.",
        lasts: Duration::from_secs(40),
        script: "at 21.05s crash leader\n",
        breaks: &[],
    },
    Story {
        name: "heartbeat-unlucky",
        algorithm: &HEARTBEAT,
        about: "The leader dies, and before the election is over the one that would win it dies too. No process misses it until three of its heartbeats are missing: 11 s become 22 s, and could become any number.",
        lasts: Duration::from_secs(60),
        script: "at 21.05s crash e\nat 30s crash d\n",
        breaks: &[HEARTBEAT_AWAY_MAX],
    },
    Story {
        name: "heartbeat-partition",
        algorithm: &HEARTBEAT,
        about: "The network is cut in two. One side misses the leader's heartbeats and elects another.",
        lasts: Duration::from_secs(60),
        script: "at 20s split a b | c d e for 20s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "heartbeat-lease-crash",
        algorithm: &LEASED_HEARTBEAT,
        about: "The leader dies just after a renewal: the lease runs for another 10 s, and 200 ms later another leads.",
        lasts: Duration::from_secs(40),
        script: "at 20.25s crash leader\n",
        breaks: &[],
    },
    Story {
        name: "heartbeat-lease-partition",
        algorithm: &LEASED_HEARTBEAT,
        about: "The leader is cut off with one other. It cannot renew and stops before its lease ends; only then do the others grant the next lease.",
        lasts: Duration::from_secs(60),
        script: "at 20.25s split a b c | d e for 20s\n",
        breaks: &[],
    },
    Story {
        name: "heartbeat-lease-pause",
        algorithm: &LEASED_HEARTBEAT,
        about: "The leader is paused for longer than its lease and still believes. It checks the clock before it writes, and that saves the storage this once: between the check and the write nothing happens here.",
        lasts: Duration::from_secs(60),
        script: "at 20.25s pause leader for 30s\n",
        breaks: &[Promise::OneBeliever],
    },
];

/// How a dead leader is detected.
#[derive(Debug)]
struct Detector {
    /// How often the leader sends a heartbeat.
    interval: Duration,
    /// After this much silence a process campaigns.
    silence: Duration,
    /// How long a campaign takes.
    election: Duration,
    /// Whether a majority grants a lease, for the time of silence.
    lends: bool,
}

const MISSED: Detector =
    Detector { interval: ms(2000), silence: ms(3 * 2000), election: ms(5000), lends: false };
const LEASE: Detector =
    Detector { interval: ms(10_000 / 3), silence: ms(10_000), election: ms(200), lends: true };

/// The share by which a leader counts its lease as shorter: clocks do not run at the same rate.
const MARGIN: u32 = 100;

#[derive(Clone, Debug)]
enum HeartbeatMessage {
    /// With the time of its sending, by the leader's own clock.
    Heartbeat(Moment),
    Heard(Moment),
    /// With the start of its campaign, by its own clock.
    Stand(Moment),
    /// With the start of the receiver's campaign: a grant for an earlier campaign does not count.
    Lend(Moment),
}

impl fmt::Display for HeartbeatMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeartbeatMessage::Heartbeat(_) => "I am still here",
            HeartbeatMessage::Heard(_) => "I have heard you",
            HeartbeatMessage::Stand(_) => "the leader is gone; I would do it",
            HeartbeatMessage::Lend(_) => "do it, for as long as the lease lasts",
        })
    }
}

impl ProtocolMessage for HeartbeatMessage {
    fn kind(&self) -> &'static str {
        match self {
            HeartbeatMessage::Heartbeat(_) => "heartbeat",
            HeartbeatMessage::Heard(_) => "heard",
            HeartbeatMessage::Stand(_) => "stand",
            HeartbeatMessage::Lend(_) => "lend",
        }
    }

    fn is_routine(&self) -> bool {
        matches!(self, HeartbeatMessage::Heartbeat(_) | HeartbeatMessage::Heard(_))
    }
}

#[derive(Debug)]
struct HeartbeatProcess {
    detector: &'static Detector,
    /// On disk: it has run before, and may have granted a lease.
    has_run: bool,
    role: ProcessRole,
    leader: Option<ProcessId>,
    /// The campaigning processes: since when, and since when by their own clock.
    standing: BTreeMap<ProcessId, (Moment, Moment)>,
    stood: Moment,
    lenders: BTreeSet<ProcessId>,
    /// The heartbeat that each follower has acknowledged.
    heard: BTreeMap<Moment, BTreeSet<ProcessId>>,
    lease_until: Moment,
}

impl HeartbeatProcess {
    fn new(detector: &'static Detector) -> HeartbeatProcess {
        HeartbeatProcess {
            detector,
            has_run: false,
            role: ProcessRole::Idle,
            leader: None,
            standing: BTreeMap::new(),
            stood: Moment::ZERO,
            lenders: BTreeSet::new(),
            heard: BTreeMap::new(),
            lease_until: Moment::ZERO,
        }
    }

    fn stand(&mut self, context: &mut Context<'_, HeartbeatMessage>) {
        let (now, recent) = (context.now(), 2 * self.detector.election);
        self.role = ProcessRole::Candidate;
        self.leader = None;
        self.stood = now;
        self.lenders.clear();
        self.standing.retain(|_, (since, _)| now.since(*since) <= recent);
        self.standing.insert(context.me, (now, now));
        context.broadcast(&HeartbeatMessage::Stand(now));
        context.alarm("election", self.detector.election);
    }

    /// The highest campaigning process is to lead.
    fn choose(&mut self, context: &mut Context<'_, HeartbeatMessage>) {
        let (highest, stood) = match self.standing.last_key_value() {
            Some((highest, (_, stood))) => (*highest, *stood),
            None => (context.me, self.stood),
        };
        context.alarm("silence", self.detector.silence);
        if self.detector.lends {
            self.role = ProcessRole::Waiting;
            self.leader = Some(highest);
            if highest == context.me {
                self.lent_by(context.me, context);
            } else {
                context.send(highest, HeartbeatMessage::Lend(stood));
            }
        } else if highest == context.me {
            self.win(context);
        } else {
            self.role = ProcessRole::Follower;
            self.leader = Some(highest);
        }
    }

    fn lent_by(&mut self, lender: ProcessId, context: &mut Context<'_, HeartbeatMessage>) {
        self.lenders.insert(lender);
        let lent_to_itself = self.lenders.contains(&context.me);
        if self.role != ProcessRole::Leader
            && lent_to_itself
            && self.lenders.len() >= context.majority()
        {
            // A process that has not campaigned yet gets no grant.
            self.renewed(self.stood, context);
            self.win(context);
        }
    }

    fn renewed(&mut self, sent: Moment, context: &mut Context<'_, HeartbeatMessage>) {
        let lasts = self.detector.silence - self.detector.silence / MARGIN;
        self.lease_until = self.lease_until.max(sent + lasts);
        context.alarm("lease", self.lease_until.since(context.now()));
    }

    fn win(&mut self, context: &mut Context<'_, HeartbeatMessage>) {
        self.role = ProcessRole::Leader;
        self.leader = Some(context.me);
        context.cancel("silence");
        context.lead(None);
        self.show(context);
    }

    fn show(&mut self, context: &mut Context<'_, HeartbeatMessage>) {
        let now = context.now();
        if self.detector.lends {
            self.heard.insert(now, BTreeSet::from([context.me]));
        }
        context.broadcast(&HeartbeatMessage::Heartbeat(now));
        context.alarm("heartbeat", self.detector.interval);
    }

    fn follow(&mut self, leader: ProcessId, context: &mut Context<'_, HeartbeatMessage>) {
        self.role = ProcessRole::Follower;
        self.leader = Some(leader);
        self.standing.clear();
        context.step_down();
        context.cancel("heartbeat");
        context.cancel("election");
        context.cancel("lease");
        context.alarm("silence", self.detector.silence);
    }

    /// Whether a heartbeat is accepted. A process that has granted a lease does not accept another leader; of two leaders
    /// without a grant, the higher stays.
    fn believes(&self, from: ProcessId, me: ProcessId) -> bool {
        match self.role {
            ProcessRole::Leader => !self.detector.lends && from > me,
            ProcessRole::Waiting | ProcessRole::Follower => {
                self.leader.is_none_or(|leader| leader == from)
                    || !self.detector.lends && self.leader < Some(from)
            }
            _ => true,
        }
    }

    fn heartbeat(
        &mut self,
        from: ProcessId,
        sent: Moment,
        context: &mut Context<'_, HeartbeatMessage>,
    ) {
        if self.believes(from, context.me) {
            self.follow(from, context);
            if self.detector.lends {
                context.send(from, HeartbeatMessage::Heard(sent));
            }
        } else if self.role == ProcessRole::Leader && !self.detector.lends {
            context.send(from, HeartbeatMessage::Heartbeat(context.now()));
        }
    }

    fn heard(&mut self, by: ProcessId, sent: Moment, context: &mut Context<'_, HeartbeatMessage>) {
        let Some(heard) = self.heard.get_mut(&sent) else { return };
        heard.insert(by);
        if self.role == ProcessRole::Leader && heard.len() >= context.majority() {
            self.heard = self.heard.split_off(&sent);
            self.renewed(sent, context);
        }
    }
}

impl Actor<HeartbeatMessage> for HeartbeatProcess {
    fn start(&mut self, context: &mut Context<'_, HeartbeatMessage>) {
        let had_run = self.has_run;
        *self = HeartbeatProcess { has_run: true, ..HeartbeatProcess::new(self.detector) };
        if had_run {
            // It does not know which process has its grant, so it waits until that is over.
            context.alarm("silence", self.detector.silence);
        } else {
            self.stand(context);
        }
    }

    fn receive(
        &mut self,
        from: ProcessId,
        message: HeartbeatMessage,
        context: &mut Context<'_, HeartbeatMessage>,
    ) {
        match message {
            HeartbeatMessage::Heartbeat(sent) => self.heartbeat(from, sent, context),
            HeartbeatMessage::Heard(sent) => self.heard(from, sent, context),
            HeartbeatMessage::Stand(_) if self.role == ProcessRole::Leader => {
                context.send(from, HeartbeatMessage::Heartbeat(context.now()));
            }
            HeartbeatMessage::Stand(stood) => {
                self.standing.insert(from, (context.now(), stood));
            }
            HeartbeatMessage::Lend(stood) if stood == self.stood => self.lent_by(from, context),
            HeartbeatMessage::Lend(_) => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, HeartbeatMessage>) {
        match alarm {
            "heartbeat" if self.role == ProcessRole::Leader => self.show(context),
            "election" => self.choose(context),
            "silence" => {
                context.detect();
                self.stand(context);
            }
            "lease" => {
                context.say("could not renew its lease");
                self.role = ProcessRole::Idle;
                self.leader = None;
                context.step_down();
                context.cancel("heartbeat");
                context.alarm("silence", self.detector.silence / MARGIN);
            }
            _ => {}
        }
    }

    fn may_write(&mut self, context: &mut Context<'_, HeartbeatMessage>) -> bool {
        !self.detector.lends || context.now() < self.lease_until
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(self.role).leader(self.leader)
    }
}

fn build(setup: &Setup, detector: &'static Detector) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Open);
    for _ in 0..setup.contenders {
        stage.add_contender(HeartbeatProcess::new(detector));
    }
    Box::new(stage)
}
