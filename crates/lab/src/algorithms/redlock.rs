//! Redlock: a lock on three of five Redis servers that know nothing of each other.
//!
//! A client requests the lock from all five with a unique value, and has it if three agree before its time is up; if not it
//! releases what it has got and tries again later. It relies on the lock for its TTL, less the time of the requests and a
//! margin for clocks.
//!
//! There is no replica that lags behind. But every server counts time by a wall clock, and one that restarts has forgotten
//! its locks; one of three is enough for two owners. And there is no token: a paused owner writes when it resumes.

use std::{collections::BTreeSet, time::Duration};

use tenure_replica::Moment;

use super::{
    Algorithm, Setup, Story,
    store::{Condition, SimStore, StoreMessage, StoreOptions, StoreRequest, StoreResponse},
};
use crate::{
    engine::ms,
    stage::{
        Actor, AlgorithmRun, Context, ProcessId, ProcessRole, ProcessView, Promise, Stage,
        StorageGate,
    },
};

const KEY: &str = "leader-lock";
const SERVERS: [&str; 5] = ["s1", "s2", "s3", "s4", "s5"];
const MAJORITY: usize = SERVERS.len() / 2 + 1;

const TTL: Duration = ms(10_000);
const RENEW: Duration = ms(3333);
/// Answers after this time do not count.
const ROUND: Duration = ms(50);
/// The margin for clocks: a hundredth, and 2 ms.
const DRIFT: Duration = ms(102);
/// The range of the random wait before the next try.
const RETRY: (Duration, Duration) = (ms(200), ms(700));

pub(super) const REDLOCK: Algorithm = Algorithm {
    name: "redlock",
    about: "SET NX PX on five independent servers; the client with three of them owns the lock",
    origin: "Sanfilippo's Redlock, and Kleppmann's critique 2016",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        Promise::VacantAtMost(ms(12_000)),
        Promise::LeaderAtEnd,
    ],
    contenders: 3,
    patience: Some(ms(15_000)),
    build,
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "redlock-crash",
        algorithm: &REDLOCK,
        about: "The owner dies, and two of five servers with it. The lock ends after 10 s, and three servers are enough.",
        lasts: Duration::from_secs(40),
        script: "at 5s crash leader\nat 5s crash s1\nat 5s crash s2\n",
        breaks: &[],
    },
    Story {
        name: "redlock-clock-jump",
        algorithm: &REDLOCK,
        about: "The owner has three servers and cannot reach two. The clock of one of the three is set ahead: it forgets the lock, and another has three.",
        lasts: Duration::from_secs(30),
        script: "at 0s cut a s4\nat 0s cut a s5\nat 4s clock s3 jumps +20s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "redlock-two-clocks-jump",
        algorithm: &REDLOCK,
        about: "The owner has four servers. The clocks of two of them are set ahead, and with the fifth they are three.",
        lasts: Duration::from_secs(30),
        script: "at 0s cut a s5\nat 4s clock s3 jumps +20s\nat 4s clock s4 jumps +20s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "redlock-restart",
        algorithm: &REDLOCK,
        about: "One of the owner's three servers restarts. Its locks were in memory only.",
        lasts: Duration::from_secs(30),
        script: "at 0s cut a s4\nat 0s cut a s5\nat 4s crash s3 for 100ms\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "redlock-pause",
        algorithm: &REDLOCK,
        about: "All five servers and their clocks are right. The owner is paused for longer than its lock lasts, and writes when it resumes.",
        lasts: Duration::from_secs(40),
        script: "at 5s pause leader for 20s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

#[derive(Debug)]
struct Owner {
    role: ProcessRole,
    leader: Option<ProcessId>,
    /// On disk, so that no value is used twice.
    rounds: u64,
    value: String,
    requested: Moment,
    granted: BTreeSet<ProcessId>,
    /// Whether another owner was seen.
    seen: Option<ProcessId>,
}

impl Owner {
    fn new() -> Owner {
        Owner {
            role: ProcessRole::Idle,
            leader: None,
            rounds: 0,
            value: String::new(),
            requested: Moment::ZERO,
            granted: BTreeSet::new(),
            seen: None,
        }
    }

    fn ask_all(
        &mut self,
        purpose: &'static str,
        what: &StoreRequest,
        context: &mut Context<'_, StoreMessage>,
    ) {
        self.rounds += 1;
        for server in SERVERS {
            let to = context.named(server);
            context.send(
                to,
                StoreMessage::Request { number: self.rounds, purpose, what: what.clone() },
            );
        }
    }

    fn put(
        &mut self,
        purpose: &'static str,
        when: Condition,
        context: &mut Context<'_, StoreMessage>,
    ) {
        self.requested = context.now();
        self.granted.clear();
        self.seen = None;
        let value = self.value.clone();
        let what = StoreRequest::Put { key: KEY, value, when, ttl: Some(TTL), stamp: None };
        self.ask_all(purpose, &what, context);
        context.alarm("round", ROUND);
    }

    fn lock(&mut self, context: &mut Context<'_, StoreMessage>) {
        self.role = ProcessRole::Candidate;
        self.value = format!("{}-{}", context.name(context.me), self.rounds + 1);
        self.put("poll", Condition::Missing, context);
    }

    fn unlock(&mut self, context: &mut Context<'_, StoreMessage>) {
        let what = StoreRequest::Delete { key: KEY, when: Condition::Is(self.value.clone()) };
        self.ask_all("give back", &what, context);
        self.role = ProcessRole::Waiting;
        let again = context.dice().duration(RETRY.0, RETRY.1);
        context.alarm("again", again);
    }

    fn stop(&mut self, context: &mut Context<'_, StoreMessage>) {
        context.step_down();
        ["renew", "valid", "round"].into_iter().for_each(|alarm| context.cancel(alarm));
        self.leader = None;
        self.unlock(context);
    }

    /// Three servers have agreed.
    fn has_it(&mut self, context: &mut Context<'_, StoreMessage>) {
        let valid = (self.requested + TTL).since(context.now()).saturating_sub(DRIFT);
        if valid.is_zero() {
            return self.stop(context);
        }
        context.cancel("round");
        context.alarm("valid", valid);
        context.alarm("renew", RENEW);
        if self.role != ProcessRole::Leader {
            context.detect();
            self.role = ProcessRole::Leader;
            self.leader = Some(context.me);
            context.lead(None);
        }
    }
}

impl Actor<StoreMessage> for Owner {
    fn start(&mut self, context: &mut Context<'_, StoreMessage>) {
        *self = Owner { rounds: self.rounds, ..Owner::new() };
        context.alarm("again", if context.me == 0 { Duration::ZERO } else { RETRY.0 });
    }

    fn receive(
        &mut self,
        from: ProcessId,
        message: StoreMessage,
        context: &mut Context<'_, StoreMessage>,
    ) {
        let StoreMessage::Response { number, answer, purpose } = message else { return };
        if number != self.rounds || purpose == "give back" {
            return;
        }
        match answer {
            StoreResponse::Done { .. } => {
                self.granted.insert(from);
                if self.granted.len() == MAJORITY {
                    self.has_it(context);
                }
            }
            StoreResponse::Refused(entry) => {
                self.seen = entry.map(|entry| entry.writer).or(self.seen)
            }
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, StoreMessage>) {
        match alarm {
            "again" => self.lock(context),
            "renew" => self.put("renew", Condition::Is(self.value.clone()), context),
            "round" if self.role == ProcessRole::Leader => {
                context.say("cannot renew on three servers");
                self.stop(context);
            }
            "round" => {
                self.leader = self.seen;
                self.unlock(context);
            }
            "valid" => {
                context.say("does not trust its lock any more");
                self.stop(context);
            }
            _ => {}
        }
    }

    fn stops_at(&self) -> Option<&'static str> {
        Some("valid")
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(self.role).leader(self.leader)
    }
}

fn build(setup: &Setup) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Open);
    for _ in 0..setup.contenders {
        stage.add_contender(Owner::new());
    }
    for server in SERVERS {
        let rules = StoreOptions { by_wall: true, durable: false, ..StoreOptions::default() };
        stage.add_server(server, SimStore::new(rules));
    }
    Box::new(stage)
}
