//! A lock on one Redis server: `SET key value NX PX ttl`, with a unique value, and unlocked only if that value is still
//! there.
//!
//! That is right as long as the server lives. It replicates asynchronously. When it dies a sentinel promotes the replica,
//! and a lock that was not replicated yet is free again: two processes own it.

use std::time::Duration;

use super::{
    Algorithm, Setup, Story,
    store::{
        Condition, SimStore, StoreClient, StoreMessage, StoreOptions, StoreRequest, StoreResponse,
    },
};
use crate::{
    engine::ms,
    stage::{
        Actor, AlgorithmRun, Context, ProcessId, ProcessRole, ProcessView, Promise, Stage,
        StorageGate,
    },
};

const KEY: &str = "leader-lock";
const PRIMARY: &str = "primary";
const REPLICA: &str = "replica";
const SENTINEL: &str = "sentinel";

const TTL: Duration = ms(10_000);
const RENEW: Duration = ms(3333);
const POLL: Duration = ms(500);
/// How long an owner works before it unlocks, and how long it waits until it wants the lock again.
const HOLD: Duration = ms(20_000);
const REST: Duration = ms(5000);

/// How often a sentinel pings, and after which silence it takes a server for dead.
const PING: Duration = ms(100);
const SILENCE: Duration = ms(500);

/// Checked at each unlock.
const OWN_LOCK_ONLY: Promise = Promise::Own(OWN_LOCK_ONLY_TEXT);
const OWN_LOCK_ONLY_TEXT: &str = "only its owner deletes a lock";

pub(super) const REDIS: Algorithm = Algorithm {
    name: "redis",
    about: "SET NX PX with a unique value, compare-and-delete, and a replica that lags behind",
    origin: "Redis SET NX, replication and Sentinel",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        OWN_LOCK_ONLY,
        Promise::VacantAtMost(ms(10_600)),
        Promise::LeaderAtEnd,
    ],
    contenders: 3,
    patience: Some(ms(12_000)),
    build,
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "redis-crash",
        algorithm: &REDIS,
        about: "The owner dies, and its lock ends after 10 s.",
        lasts: Duration::from_secs(40),
        script: "at 5s crash leader\n",
        breaks: &[],
    },
    Story {
        name: "redis-failover",
        algorithm: &REDIS,
        about: "The server dies before it has replicated the lock. The replica takes over, knows of no lock, and grants it to another.",
        lasts: Duration::from_secs(35),
        script: "at 500ms crash primary\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "redis-failover-copied",
        algorithm: &REDIS,
        about: "The server dies when the replica has the lock: with luck, nothing happens.",
        lasts: Duration::from_secs(35),
        script: "at 5.5s crash primary\n",
        breaks: &[],
    },
    Story {
        name: "redis-pause",
        algorithm: &REDIS,
        about: "The owner is paused until its lock is another's. It does not delete it, as the value is not its own; but there is no token, and what it writes before that is taken.",
        lasts: Duration::from_secs(35),
        script: "at 2s pause leader for 25s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

#[derive(Debug, Default)]
struct Owner {
    client: StoreClient,
    /// The server that it uses; the sentinel knows.
    server: Option<ProcessId>,
    role: ProcessRole,
    leader: Option<ProcessId>,
    /// On disk, so that no value is used twice.
    locks: u64,
    value: String,
}

impl Owner {
    fn ask(
        &mut self,
        purpose: &'static str,
        what: StoreRequest,
        context: &mut Context<'_, StoreMessage>,
    ) {
        let server = self.server.unwrap_or_else(|| context.named(PRIMARY));
        self.client.request(server, purpose, what, context);
    }

    fn put(
        &mut self,
        purpose: &'static str,
        when: Condition,
        context: &mut Context<'_, StoreMessage>,
    ) {
        let value = self.value.clone();
        self.ask(
            purpose,
            StoreRequest::Put { key: KEY, value, when, ttl: Some(TTL), stamp: None },
            context,
        );
    }

    fn lock(&mut self, context: &mut Context<'_, StoreMessage>) {
        self.role = ProcessRole::Waiting;
        self.locks += 1;
        self.value = format!("{}-{}", context.name(context.me), self.locks);
        self.put("poll", Condition::Missing, context);
    }

    fn unlock(&mut self, context: &mut Context<'_, StoreMessage>) {
        context.step_down();
        context.cancel("renew");
        self.role = ProcessRole::Idle;
        self.leader = None;
        let when = Condition::Is(self.value.clone());
        self.ask("unlock", StoreRequest::Delete { key: KEY, when }, context);
        context.alarm("again", REST);
    }

    fn answer(
        &mut self,
        purpose: &str,
        answer: StoreResponse,
        context: &mut Context<'_, StoreMessage>,
    ) {
        match (purpose, answer) {
            ("poll", StoreResponse::Done { .. }) => {
                context.detect();
                self.role = ProcessRole::Leader;
                self.leader = Some(context.me);
                context.lead(None);
                context.alarm("renew", RENEW);
                context.alarm("hold", HOLD);
            }
            ("poll", StoreResponse::Refused(entry)) => {
                self.leader = entry.map(|entry| entry.writer);
                context.alarm("again", POLL);
            }
            ("renew", StoreResponse::Done { .. }) => context.alarm("renew", RENEW),
            ("renew", _) => {
                context.say("learns that the lock is not its own any more");
                context.step_down();
                context.cancel("hold");
                self.role = ProcessRole::Waiting;
                context.alarm("again", POLL);
            }
            ("unlock", StoreResponse::Done { before: Some(before), .. })
                if before.writer != context.me =>
            {
                context.broke(OWN_LOCK_ONLY_TEXT, "a lock was deleted by another process");
            }
            ("unlock", _) => context.kept(OWN_LOCK_ONLY_TEXT),
            _ => {}
        }
    }
}

impl Actor<StoreMessage> for Owner {
    fn start(&mut self, context: &mut Context<'_, StoreMessage>) {
        *self = Owner { locks: self.locks, ..Owner::default() };
        context.alarm("again", Duration::ZERO);
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
                self.answer(purpose, answer, context);
            }
            StoreMessage::Promoted(server) => self.server = Some(server),
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, StoreMessage>) {
        match alarm {
            "again" => self.lock(context),
            "renew" => self.put("renew", Condition::Is(self.value.clone()), context),
            "hold" => self.unlock(context),
            "answer" => {
                let sentinel = context.named(SENTINEL);
                context.send(sentinel, StoreMessage::Ping);
                match self.role {
                    ProcessRole::Leader => {
                        self.put("renew", Condition::Is(self.value.clone()), context)
                    }
                    ProcessRole::Idle => {}
                    _ => context.alarm("again", POLL),
                }
            }
            _ => {}
        }
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(self.role).leader(self.leader)
    }
}

/// Watches the server, and promotes its replica when the server is dead.
#[derive(Debug, Default)]
struct Sentinel {
    promoted: bool,
}

impl Sentinel {
    fn server(&self, context: &Context<'_, StoreMessage>) -> ProcessId {
        context.named(if self.promoted { REPLICA } else { PRIMARY })
    }
}

impl Actor<StoreMessage> for Sentinel {
    fn start(&mut self, context: &mut Context<'_, StoreMessage>) {
        context.alarm("ping", PING);
        context.alarm("silence", SILENCE);
    }

    fn receive(
        &mut self,
        from: ProcessId,
        message: StoreMessage,
        context: &mut Context<'_, StoreMessage>,
    ) {
        match message {
            StoreMessage::Ping => context.send(from, StoreMessage::Promoted(self.server(context))),
            StoreMessage::Pong if !self.promoted => context.alarm("silence", SILENCE),
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, StoreMessage>) {
        match alarm {
            "silence" => {
                context.say("takes the primary for dead and promotes its copy");
                self.promoted = true;
                let replica = self.server(context);
                context.send(replica, StoreMessage::Promoted(replica));
                context
                    .contenders()
                    .for_each(|to| context.send(to, StoreMessage::Promoted(replica)));
            }
            "ping" if !self.promoted => {
                let primary = self.server(context);
                context.send(primary, StoreMessage::Ping);
                context.alarm("ping", PING);
            }
            _ => {}
        }
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(ProcessRole::Server).fact("promoted", self.promoted)
    }
}

fn build(setup: &Setup) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Open);
    for _ in 0..setup.contenders {
        stage.add_contender(Owner::default());
    }
    let rules = StoreOptions { by_wall: true, ..StoreOptions::default() };
    stage.add_server(PRIMARY, SimStore::new(StoreOptions { copied_to: Some(REPLICA), ..rules }));
    stage.add_server(REPLICA, SimStore::new(rules));
    stage.add_server(SENTINEL, Sentinel::default());
    Box::new(stage)
}
