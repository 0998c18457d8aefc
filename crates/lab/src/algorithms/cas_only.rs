//! Why compare-and-swap alone is not enough.
//!
//! The data are in the store itself, and a leader changes them by compare-and-swap: it reads, and writes if what it has
//! read is still there. That keeps two writers from overwriting each other by accident. It does not keep out a leader
//! whose lease is over: that leader reads the value as it is *now*, and its swap succeeds. Compare-and-swap checks
//! whether the value has changed, not whether the writer may write.
//!
//! `cas-guarded` checks that, too: the swap also compares the lease itself, in the same step. The token is the revision
//! in which the lease was created. No process here checks a clock: the swap alone is to keep order.

use std::time::Duration;

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
const DATA: &str = "data";
const TTL: Duration = ms(10_000);
const RENEW: Duration = ms(3333);
/// A process that watches looks again after this time: a notification may be lost.
const LOOK_AGAIN: Duration = ms(15_000);
/// The leader writes seldom, so that nothing was written during its pause.
const WORK: Duration = ms(30_000);

/// Checked at every successful swap: whose lease is it?
const LEASE_HELD: Promise = Promise::Own(LEASE_HELD_TEXT);
const LEASE_HELD_TEXT: &str = "only the lease holder changes the data";

pub(super) const CAS_ONLY: Algorithm = Algorithm {
    name: "cas-only",
    about: "a lease, and work by compare-and-swap: only a process that has seen the newest value replaces it",
    origin: "optimistic concurrency as a lock",
    promises: &[LEASE_HELD, Promise::OneWriter, Promise::LeaderAtEnd],
    contenders: 2,
    patience: Some(ms(14_000)),
    build: |setup| build(setup, false),
};

pub(super) const CAS_GUARDED: Algorithm = Algorithm {
    name: "cas-guarded",
    about: "compare-and-swap of the value and of the lease at once: only the lease holder replaces the newest value",
    origin: "etcd transactions on the create revision",
    build: |setup| build(setup, true),
    ..CAS_ONLY
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "cas-only-unchanged",
        algorithm: &CAS_ONLY,
        about: "The leader is paused, its lease ends, another leads and has nothing to write yet. The old leader resumes, finds the value unchanged and swaps it: its lease is over for 25 s.",
        lasts: Duration::from_secs(60),
        script: "at 5s pause a for 30s\n",
        breaks: &[LEASE_HELD],
    },
    Story {
        name: "cas-only-reread",
        algorithm: &CAS_ONLY,
        about: "The old leader resumes only after its successor has written. It reads what is there, and its swap succeeds all the same.",
        lasts: Duration::from_secs(60),
        script: "at 5s pause a for 40s\n",
        breaks: &[LEASE_HELD, Promise::OneWriter],
    },
    Story {
        name: "cas-guarded-unchanged",
        algorithm: &CAS_GUARDED,
        about: "The value is unchanged, but the lease is another one: refused.",
        lasts: Duration::from_secs(60),
        script: "at 5s pause a for 30s\n",
        breaks: &[],
    },
    Story {
        name: "cas-guarded-reread",
        algorithm: &CAS_GUARDED,
        about: "The value was read a moment ago, but the lease is another one: refused.",
        lasts: Duration::from_secs(60),
        script: "at 5s pause a for 40s\n",
        breaks: &[],
    },
];

#[derive(Debug, Default)]
struct Worker {
    guarded: bool,
    /// One client for the lease, one for the work.
    client: StoreClient,
    work_client: StoreClient,
    role: ProcessRole,
    leader: Option<ProcessId>,
    token: Option<u64>,
    /// The lease that it had when it began its work.
    began: (u64, Option<u64>),
}

impl Worker {
    fn put(
        &mut self,
        purpose: &'static str,
        when: Condition,
        context: &mut Context<'_, StoreMessage>,
    ) {
        let (store, value) = (context.named(STORE), context.name(context.me).to_owned());
        let what = StoreRequest::Put { key: KEY, value, when, ttl: Some(TTL), stamp: None };
        self.client.request(store, purpose, what, context);
    }

    fn stop(&mut self, leader: Option<ProcessId>, context: &mut Context<'_, StoreMessage>) {
        context.step_down();
        context.cancel("renew");
        self.token = None;
        self.wait(leader, context);
    }

    fn renew(&mut self, context: &mut Context<'_, StoreMessage>) {
        self.put("renew", Condition::Is(context.name(context.me).to_owned()), context);
    }

    fn wait(&mut self, leader: Option<ProcessId>, context: &mut Context<'_, StoreMessage>) {
        self.role = ProcessRole::Waiting;
        self.leader = leader;
        let what = StoreRequest::Get { key: KEY, watch: true };
        self.client.request(context.named(STORE), "poll", what, context);
        context.alarm("again", LOOK_AGAIN);
    }

    fn won(&mut self, token: u64, context: &mut Context<'_, StoreMessage>) {
        context.detect();
        context.cancel("again");
        self.role = ProcessRole::Leader;
        self.leader = Some(context.me);
        self.token = Some(token);
        context.lead(self.token);
        context.alarm("renew", RENEW);
    }

    /// Writes what it has read, if that is still there. Work that has begun is not interrupted.
    fn swap(&mut self, seen: Option<u64>, context: &mut Context<'_, StoreMessage>) {
        let (tenure, token) = self.began;
        let guard = token.filter(|_| self.guarded).map(|token| (KEY, token));
        let what = StoreRequest::Work { key: DATA, seen, guard, tenure };
        self.work_client.request_once(context.named(STORE), "work", what, context);
    }
}

impl Actor<StoreMessage> for Worker {
    fn start(&mut self, context: &mut Context<'_, StoreMessage>) {
        *self = Worker { guarded: self.guarded, ..Worker::default() };
        context.alarm("again", if context.me == 0 { Duration::ZERO } else { RENEW });
    }

    fn receive(
        &mut self,
        _from: ProcessId,
        message: StoreMessage,
        context: &mut Context<'_, StoreMessage>,
    ) {
        match message {
            StoreMessage::Response {
                number,
                purpose: "read",
                answer: StoreResponse::Found(entry),
            } if self.work_client.accepts(number, context) => {
                self.swap(entry.map(|entry| entry.version), context);
            }
            StoreMessage::Response { number, purpose: "work", .. } => {
                self.work_client.accepts(number, context);
            }
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
                    ("poll", StoreResponse::Found(None)) => {
                        self.put("acquire", Condition::Missing, context)
                    }
                    ("renew", StoreResponse::Done { .. }) => context.alarm("renew", RENEW),
                    ("renew", StoreResponse::Refused(entry)) => {
                        self.stop(entry.map(|entry| entry.writer), context);
                    }
                    _ => {}
                }
            }
            StoreMessage::Changed { .. } if self.role == ProcessRole::Waiting => {
                context.detect();
                self.put("acquire", Condition::Missing, context);
            }
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, StoreMessage>) {
        match alarm {
            "renew" => self.renew(context),
            "answer" if self.role == ProcessRole::Leader => self.renew(context),
            "again" | "answer" => self.put("poll", Condition::Missing, context),
            _ => {}
        }
    }

    /// Its storage is the store: it reads there first, and writes nothing elsewhere.
    fn may_write(&mut self, context: &mut Context<'_, StoreMessage>) -> bool {
        self.began = (context.tenure(), self.token);
        let what = StoreRequest::Get { key: DATA, watch: false };
        self.work_client.request_once(context.named(STORE), "read", what, context);
        false
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(self.role).leader(self.leader).token(self.token)
    }
}

fn build(setup: &Setup, guarded: bool) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Open);
    stage.work_interval = WORK;
    for _ in 0..setup.contenders {
        stage.add_contender(Worker { guarded, ..Worker::default() });
    }
    stage.add_server(
        STORE,
        SimStore::new(StoreOptions {
            checks: Some((KEY, LEASE_HELD_TEXT)),
            ..StoreOptions::default()
        }),
    );
    Box::new(stage)
}
