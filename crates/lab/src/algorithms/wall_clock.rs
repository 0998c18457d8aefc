//! A lease that ends at a time of day, which each process compares with its own clock.
//!
//! The record in the store names the leader and the end of its lease. The leader moves the end before it comes; a process
//! that finds it passed takes the lease. `if lease_expiry > now()` looks safe on every machine, and is as safe as their
//! clocks are equal.
//!
//! - `lease-wall-clock`: as above. A process whose clock is ahead takes a lease that is not over; one whose clock is behind
//!   goes on with one that is.
//! - `lease-bounded-uncertainty`: no clock is off by more than ε (Spanner's TrueTime). The leader stops ε early and the
//!   others wait ε longer. Safe, for as long as ε is right.
//! - `dynamodb`: one conditional write in place of read and swap, `attribute_not_exists(leader_id) OR
//!   lease_expiry < :now`. The comparison is atomic; `:now` is still the client's clock.

use std::time::Duration;

use super::{
    Algorithm, Setup, Story,
    store::{
        Condition, STORE, SimStore, StoreClient, StoreEntry, StoreMessage, StoreOptions,
        StoreRequest, StoreResponse,
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
const RENEW: Duration = ms(3333);
/// How often a waiting process looks.
const LOOK: Duration = ms(100);
/// The bound on how far clocks are off.
const UNCERTAINTY: Duration = ms(250);

/// How the time of day is used.
#[derive(Debug)]
struct Reading {
    uncertainty: Duration,
    /// Whether the server compares, with the client's time; if not, the client reads and swaps.
    server_compares: bool,
}

const NAIVE: Reading = Reading { uncertainty: Duration::ZERO, server_compares: false };
const BOUNDED: Reading = Reading { uncertainty: UNCERTAINTY, ..NAIVE };
const CONDITIONAL: Reading = Reading { server_compares: true, ..NAIVE };

pub(super) const LEASE_WALL_CLOCK: Algorithm = Algorithm {
    name: "lease-wall-clock",
    about: "a lease until a time of day, which each process compares with its own clock",
    origin: "the anti-pattern `if lease_expiry > now()`",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        Promise::VacantAtMost(ms(10_750)),
        Promise::LeaderAtEnd,
    ],
    contenders: 3,
    patience: Some(ms(12_000)),
    build: |setup| build(setup, &NAIVE),
};

pub(super) const LEASE_BOUNDED_UNCERTAINTY: Algorithm = Algorithm {
    name: "lease-bounded-uncertainty",
    about: "a lease until a time of day, where both sides wait out how far clocks can be off",
    origin: "Spanner's TrueTime, Corbett et al. 2012",
    build: |setup| build(setup, &BOUNDED),
    ..LEASE_WALL_CLOCK
};

pub(super) const DYNAMODB: Algorithm = Algorithm {
    name: "dynamodb",
    about: "a conditional write: if there is no lease, or its end is before the writer's own time",
    origin: "DynamoDB's conditional writes as a lock",
    build: |setup| build(setup, &CONDITIONAL),
    ..LEASE_WALL_CLOCK
};

/// Clocks that are a little off, both ways, when the leader cannot renew.
const A_LITTLE_OFF: &str =
    "at 5s clock a jumps -200ms\nat 5s clock b jumps +200ms\nat 7s cut a store for 20s\n";
const FAR_AHEAD: &str = "at 5s clock b jumps +15s\n";
const FAR_BEHIND: &str = "at 5s clock a jumps -15s\nat 7s cut a store for 20s\n";

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "lease-wall-clock-crash",
        algorithm: &LEASE_WALL_CLOCK,
        about: "All clocks are right. The leader dies, and when its time is up another leads.",
        lasts: Duration::from_secs(30),
        script: "at 7s crash a\n",
        breaks: &[],
    },
    Story {
        name: "lease-wall-clock-ahead",
        algorithm: &LEASE_WALL_CLOCK,
        about: "One clock is 15 s ahead: to it the lease is over, and it takes it. The leader does not learn of that before it renews.",
        lasts: Duration::from_secs(30),
        script: FAR_AHEAD,
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "lease-wall-clock-behind",
        algorithm: &LEASE_WALL_CLOCK,
        about: "The leader's clock is set back by 15 s, and it cannot renew. Its lease ends for all but itself.",
        lasts: Duration::from_secs(40),
        script: FAR_BEHIND,
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "lease-wall-clock-a-little",
        algorithm: &LEASE_WALL_CLOCK,
        about: "Two clocks are 200 ms off, one each way. When the leader cannot renew, two lead for 400 ms.",
        lasts: Duration::from_secs(40),
        script: A_LITTLE_OFF,
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "lease-bounded-uncertainty-kept",
        algorithm: &LEASE_BOUNDED_UNCERTAINTY,
        about: "Two clocks are 200 ms off, within the bound of 250 ms. One stops early, the other waits longer, and at no time do both lead.",
        lasts: Duration::from_secs(40),
        script: A_LITTLE_OFF,
        breaks: &[],
    },
    Story {
        name: "lease-bounded-uncertainty-broken",
        algorithm: &LEASE_BOUNDED_UNCERTAINTY,
        about: "One clock is off by more than the bound.",
        lasts: Duration::from_secs(30),
        script: FAR_AHEAD,
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

pub(super) const DYNAMODB_STORIES: &[Story] = &[
    Story {
        name: "dynamodb-crash",
        algorithm: &DYNAMODB,
        about: "The leader dies, and the first conditional write after the end of its lease succeeds.",
        lasts: Duration::from_secs(30),
        script: "at 7s crash a\n",
        breaks: &[],
    },
    Story {
        name: "dynamodb-skew",
        algorithm: &DYNAMODB,
        about: "One client's clock is 15 s ahead: the condition holds, and the write takes the lease of a leader that lives.",
        lasts: Duration::from_secs(30),
        script: FAR_AHEAD,
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

#[derive(Debug)]
struct Reader {
    reading: &'static Reading,
    client: StoreClient,
    role: ProcessRole,
    leader: Option<ProcessId>,
    version: u64,
    /// The end of its lease, by its own clock, and the one that it has requested.
    until: Duration,
    asked: Duration,
}

impl Reader {
    fn new(reading: &'static Reading) -> Reader {
        Reader {
            reading,
            client: StoreClient::default(),
            role: ProcessRole::Idle,
            leader: None,
            version: 0,
            until: Duration::ZERO,
            asked: Duration::ZERO,
        }
    }

    fn put(
        &mut self,
        purpose: &'static str,
        when: Condition,
        context: &mut Context<'_, StoreMessage>,
    ) {
        let (store, value) = (context.named(STORE), context.name(context.me).to_owned());
        self.asked = context.wall() + TTL;
        let what = StoreRequest::Put { key: KEY, value, when, ttl: None, stamp: Some(self.asked) };
        self.client.request(store, purpose, what, context);
    }

    fn look(&mut self, context: &mut Context<'_, StoreMessage>) {
        self.role = ProcessRole::Waiting;
        if self.reading.server_compares {
            self.put("poll", Condition::MissingOrBefore(context.wall()), context);
        } else {
            let what = StoreRequest::Get { key: KEY, watch: false };
            self.client.request(context.named(STORE), "poll", what, context);
        }
    }

    /// Whether a lease is over, by this process's clock.
    fn found(&mut self, entry: Option<&StoreEntry>, context: &mut Context<'_, StoreMessage>) {
        let Some(entry) = entry else { return self.put("acquire", Condition::Missing, context) };
        self.leader = Some(entry.writer);
        if entry.stamp.unwrap_or_default() + self.reading.uncertainty < context.wall() {
            context.say("finds that the lease is over");
            context.detect();
            self.put("acquire", Condition::Version(entry.version), context);
        } else {
            context.alarm("look", LOOK);
        }
    }

    fn renew(&mut self, context: &mut Context<'_, StoreMessage>) {
        self.put("renew", Condition::Version(self.version), context);
    }

    fn written_down(&mut self, entry: &StoreEntry, context: &mut Context<'_, StoreMessage>) {
        self.version = entry.version;
        self.until = self.asked;
        if self.role != ProcessRole::Leader {
            context.detect();
            self.role = ProcessRole::Leader;
            self.leader = Some(context.me);
            context.cancel("look");
            context.lead(None);
        }
        context.alarm("renew", RENEW);
    }

    fn stop(&mut self, context: &mut Context<'_, StoreMessage>) {
        context.step_down();
        context.cancel("renew");
        self.role = ProcessRole::Waiting;
        self.leader = None;
        context.alarm("look", LOOK);
    }
}

impl Actor<StoreMessage> for Reader {
    fn start(&mut self, context: &mut Context<'_, StoreMessage>) {
        *self = Reader::new(self.reading);
        context.alarm("look", if context.me == 0 { Duration::ZERO } else { LOOK });
    }

    fn receive(
        &mut self,
        _from: ProcessId,
        message: StoreMessage,
        context: &mut Context<'_, StoreMessage>,
    ) {
        let StoreMessage::Response { number, purpose, answer } = message else { return };
        if !self.client.accepts(number, context) {
            return;
        }
        match (purpose, answer) {
            (_, StoreResponse::Done { now: Some(entry), .. }) => self.written_down(&entry, context),
            ("poll", StoreResponse::Found(entry)) => self.found(entry.as_ref(), context),
            ("renew", StoreResponse::Refused(_)) => {
                context.say("learns that another process has its lease");
                self.stop(context);
            }
            (_, StoreResponse::Refused(entry)) => {
                self.leader = entry.map(|entry| entry.writer);
                context.alarm("look", LOOK);
            }
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, StoreMessage>) {
        match alarm {
            "look" if self.role != ProcessRole::Leader => self.look(context),
            "renew" => self.renew(context),
            "answer" if self.role == ProcessRole::Leader => self.renew(context),
            "answer" => context.alarm("look", LOOK),
            _ => {}
        }
    }

    /// Whether its lease lasts, by its own clock.
    fn may_write(&mut self, context: &mut Context<'_, StoreMessage>) -> bool {
        let may = self.until > context.wall() + self.reading.uncertainty;
        if !may {
            context.say("finds that its own lease is over");
            self.stop(context);
        }
        may
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(self.role).leader(self.leader)
    }
}

fn build(setup: &Setup, reading: &'static Reading) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Open);
    // It checks the clock before every write.
    stage.work_interval = ms(50);
    for _ in 0..setup.contenders {
        stage.add_contender(Reader::new(reading));
    }
    stage.add_server(STORE, SimStore::new(StoreOptions::default()));
    Box::new(stage)
}
