//! A lease, without and with fencing: the well-known timeline, second by second.
//!
//! A lock service grants leases of 10 s, each with a number that is higher than all before: its token. A holder renews
//! before the lease ends, and stops by itself if it cannot.
//!
//! A leader that is paused for longer than its lease does not know that. When it resumes, it writes as if it still led. No
//! lock can prevent that; only the storage can, if it gets the token and has seen a higher one.

use std::time::Duration;

use tenure_replica::Moment;

use super::{
    Algorithm, Setup, Story,
    store::{
        Condition, STORE, SimStore, StoreClient, StoreMessage, StoreOptions, StoreRequest,
        StoreResponse,
    },
};
use crate::{
    engine::ms,
    stage::{
        Actor, AlgorithmRun, Context, ProcessId, ProcessRole, ProcessView, Promise, Stage,
        StorageGate,
    },
};

const KEY: &str = "leader";
const TTL: Duration = ms(10_000);
/// Later than usual, so that the leader of the story has not renewed when it is paused after 5 s.
const RENEW: Duration = ms(6000);
/// The fifth try is at 11 s.
const POLL: Duration = ms(2200);
/// A process that watches looks again after this time: a notification may be lost.
const LOOK_AGAIN: Duration = ms(15_000);
/// The share by which a leader counts its lease as shorter: clocks do not run at the same rate.
const MARGIN: u32 = 100;

/// A variant of the algorithm.
#[derive(Debug)]
struct Variant {
    first_token: u64,
    gate: StorageGate,
    /// Whether waiting processes are told when the lease ends, or poll.
    watches: bool,
}

const PLAIN: Variant = Variant { first_token: 100, gate: StorageGate::Open, watches: false };
const FENCED: Variant = Variant { gate: StorageGate::Tokens, ..PLAIN };
const FENCED_33: Variant = Variant { first_token: 33, gate: StorageGate::Tokens, watches: true };

const PROMISES: &[Promise] = &[
    Promise::OneBeliever,
    Promise::OneWriter,
    Promise::TokensGrow,
    Promise::VacantAtMost(ms(12_300)),
    Promise::LeaderAtEnd,
];

pub(super) const LEASE: Algorithm = Algorithm {
    name: "lease",
    about: "a lock service grants leases of 10 s; the storage takes every write",
    origin: "Gray and Cheriton 1989",
    promises: PROMISES,
    contenders: 2,
    patience: Some(ms(14_000)),
    build: |setup| build(setup, &PLAIN),
};

pub(super) const LEASE_FENCED: Algorithm = Algorithm {
    name: "lease-fenced",
    about: "leases of 10 s, each with a higher token; the storage refuses tokens lower than it has seen",
    origin: "Kleppmann 2016",
    build: |setup| build(setup, &FENCED),
    ..LEASE
};

pub(super) const LEASE_FENCED_WATCH: Algorithm = Algorithm {
    name: "lease-fenced-watch",
    about: "leases with tokens, and waiting processes are told when one ends",
    origin: "Kleppmann 2016",
    build: |setup| build(setup, &FENCED_33),
    ..LEASE
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "lease-crash",
        algorithm: &LEASE,
        about: "The leader dies. Its lease ends 10 s after the last renewal, and with the next try the other leads.",
        lasts: Duration::from_secs(30),
        script: "at 7s crash a\n",
        breaks: &[],
    },
    Story {
        name: "lease-partition",
        algorithm: &LEASE,
        about: "The leader cannot renew its lease, knows when it ends, and stops before another leads.",
        lasts: Duration::from_secs(40),
        script: "at 7s cut a store for 20s\n",
        breaks: &[],
    },
    Story {
        name: "lease-gc-pause",
        algorithm: &LEASE,
        about: "T=0 a has the lease with token 100. T=5 it pauses for 30 s. T=10 the lease ends. T=11 b has it with token 101. T=35 a wakes up and writes: the storage takes it, and the data are corrupt.",
        lasts: Duration::from_secs(45),
        script: "at 5s pause a for 30s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "lease-fenced-gc-pause",
        algorithm: &LEASE_FENCED,
        about: "The same, second by second; but the storage has seen token 101 and refuses what a writes with 100.",
        lasts: Duration::from_secs(45),
        script: "at 5s pause a for 30s\n",
        breaks: &[Promise::OneBeliever],
    },
    Story {
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
    variant: &'static Variant,
    client: StoreClient,
    role: ProcessRole,
    leader: Option<ProcessId>,
    token: Option<u64>,
    requested: Moment,
}

impl Holder {
    fn new(variant: &'static Variant) -> Holder {
        Holder {
            variant,
            client: StoreClient::default(),
            role: ProcessRole::Idle,
            leader: None,
            token: None,
            requested: Moment::ZERO,
        }
    }

    fn put(
        &mut self,
        purpose: &'static str,
        when: Condition,
        context: &mut Context<'_, StoreMessage>,
    ) {
        let (store, value) = (context.named(STORE), context.name(context.me).to_owned());
        let what = StoreRequest::Put { key: KEY, value, when, ttl: Some(TTL), stamp: None };
        self.requested = context.now();
        self.client.request(store, purpose, what, context);
    }

    fn acquire(&mut self, purpose: &'static str, context: &mut Context<'_, StoreMessage>) {
        self.role = ProcessRole::Candidate;
        self.put(purpose, Condition::Missing, context);
    }

    fn renew(&mut self, context: &mut Context<'_, StoreMessage>) {
        self.put("renew", Condition::Is(context.name(context.me).to_owned()), context);
    }

    fn wait(&mut self, leader: Option<ProcessId>, context: &mut Context<'_, StoreMessage>) {
        self.role = ProcessRole::Waiting;
        self.leader = leader;
        if self.variant.watches && leader.is_some() {
            let what = StoreRequest::Get { key: KEY, watch: true };
            self.client.request(context.named(STORE), "poll", what, context);
            context.alarm("again", LOOK_AGAIN);
        } else {
            context.alarm("again", POLL);
        }
    }

    /// The lease lasts from when it was *requested*.
    fn lasts(&self, context: &mut Context<'_, StoreMessage>) {
        let over = self.requested + (TTL - TTL / MARGIN);
        context.alarm("over", over.since(context.now()));
        context.alarm("renew", RENEW);
    }

    fn stop(&mut self, leader: Option<ProcessId>, context: &mut Context<'_, StoreMessage>) {
        context.step_down();
        context.cancel("over");
        context.cancel("renew");
        self.token = None;
        self.wait(leader, context);
    }

    fn won(&mut self, token: u64, context: &mut Context<'_, StoreMessage>) {
        context.detect();
        context.cancel("again");
        self.role = ProcessRole::Leader;
        self.leader = Some(context.me);
        self.token = Some(token);
        context.lead(self.token);
        self.lasts(context);
    }
}

impl Actor<StoreMessage> for Holder {
    fn start(&mut self, context: &mut Context<'_, StoreMessage>) {
        *self = Holder::new(self.variant);
        // The first contender has it at T=0.
        context.alarm("again", if context.me == 0 { Duration::ZERO } else { POLL });
    }

    fn receive(
        &mut self,
        _from: ProcessId,
        message: StoreMessage,
        context: &mut Context<'_, StoreMessage>,
    ) {
        match message {
            StoreMessage::Response { number, purpose, answer }
                if self.client.accepts(number, context) =>
            {
                match (purpose, answer) {
                    ("acquire" | "poll", StoreResponse::Done { now: Some(entry), .. }) => {
                        self.won(entry.created, context);
                    }
                    ("acquire" | "poll", StoreResponse::Refused(entry)) => {
                        self.wait(entry.map(|entry| entry.writer), context);
                    }
                    ("poll", StoreResponse::Found(None)) => self.acquire("acquire", context),
                    ("renew", StoreResponse::Done { .. }) => self.lasts(context),
                    ("renew", StoreResponse::Refused(entry)) => {
                        context.say("learns that its lease is over");
                        self.stop(entry.map(|entry| entry.writer), context);
                    }
                    _ => {}
                }
            }
            StoreMessage::Changed { .. } if self.role == ProcessRole::Waiting => {
                context.detect();
                self.acquire("acquire", context);
            }
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, StoreMessage>) {
        match alarm {
            "again" => self.acquire("poll", context),
            "over" => {
                context.say("could not renew its lease: it is over");
                self.stop(None, context);
            }
            "renew" => self.renew(context),
            "answer" if self.role == ProcessRole::Leader => self.renew(context),
            "answer" => self.wait(None, context),
            _ => {}
        }
    }

    fn stops_at(&self) -> Option<&'static str> {
        Some("over")
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(self.role).leader(self.leader).token(self.token)
    }
}

fn build(setup: &Setup, variant: &'static Variant) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, variant.gate);
    for _ in 0..setup.contenders {
        stage.add_contender(Holder::new(variant));
    }
    let rules = StoreOptions { revision: variant.first_token - 1, ..StoreOptions::default() };
    stage.add_server(STORE, SimStore::new(rules));
    Box::new(stage)
}
