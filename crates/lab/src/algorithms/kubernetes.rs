//! Kubernetes: a `Lease` object, and each observer's own stopwatch.
//!
//! The object names the leader; every renewal changes it. A candidate does not compare its times with a clock: it records
//! when it last *saw the object change*, by its own monotonic clock, and takes the lease when that was longer ago than the
//! lease lasts. All writes are conditional on the resource version, so of two that try one fails. The leader stops if it
//! could not renew for the renew deadline, which is shorter.
//!
//! Wall clocks may be wrong. It relies on clocks that run at about the same rate, and on equal configurations: a
//! candidate decides by its own durations (kubernetes#47671). There is no token.

use std::time::Duration;

use tenure_replica::Moment;

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

const KEY: &str = "lease";

/// The configuration of an elector.
#[derive(Debug)]
struct Durations {
    lease: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

/// Kubernetes: lease 15 s, renew deadline 10 s, retry 2 s.
const DEFAULT: Durations =
    Durations { lease: ms(15_000), renew_deadline: ms(10_000), retry: ms(2000) };
/// A faster configuration, on one machine.
const IMPATIENT: Durations =
    Durations { lease: ms(4000), renew_deadline: ms(3000), retry: ms(500) };
/// A waiting candidate tries after retry × (1 + up to this, in tenths).
const JITTER_TENTHS: u32 = 12;

/// The object is seen to change up to 4.4 s late, and the end of the lease is noticed as late.
const NOTICED_WITHIN: Promise = Promise::VacantAtMost(ms(24_000));

pub(super) const KUBERNETES: Algorithm = Algorithm {
    name: "kubernetes",
    about: "a Lease object by compare-and-swap, timed by each observer's own clock: 15, 10, 2 s",
    origin: "client-go leaderelection",
    promises: &[Promise::OneBeliever, Promise::OneWriter, NOTICED_WITHIN, Promise::LeaderAtEnd],
    contenders: 3,
    patience: Some(ms(26_000)),
    build: |setup| build(setup, false),
};

pub(super) const KUBERNETES_MIXED: Algorithm = Algorithm {
    name: "kubernetes-mixed",
    about: "a Lease object, and the last candidate is configured with leases of 4 s instead of 15",
    build: |setup| build(setup, true),
    ..KUBERNETES
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "kubernetes-crash",
        algorithm: &KUBERNETES,
        about: "The leader dies. A candidate that has not seen its object change for 15 s takes it.",
        lasts: Duration::from_secs(90),
        script: "at 30s crash leader\n",
        breaks: &[],
    },
    Story {
        name: "kubernetes-skew",
        algorithm: &KUBERNETES,
        about: "Clocks are set an hour ahead and an hour back, without any effect; then the leader is cut off, stops by itself, and another leads.",
        lasts: Duration::from_secs(90),
        script: "at 10s clock a jumps -1h\nat 10s clock b jumps +1h\nat 30s cut a store for 40s\n",
        breaks: &[],
    },
    Story {
        name: "kubernetes-pause",
        algorithm: &KUBERNETES,
        about: "The leader is paused for 40 s, and writes when it resumes: nothing but a token would stop it.",
        lasts: Duration::from_secs(90),
        script: "at 30s pause leader for 40s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "kubernetes-mixed-durations",
        algorithm: &KUBERNETES_MIXED,
        about: "The leader cannot reach the server for 9 s, and may go on for 10. One candidate is configured with leases of 4 s, and takes it.",
        lasts: Duration::from_secs(90),
        script: "at 30.5s cut a store for 9s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

#[derive(Debug)]
struct Elector {
    durations: &'static Durations,
    client: StoreClient,
    role: ProcessRole,
    leader: Option<ProcessId>,
    /// The resource version last seen, and since when.
    version: u64,
    observed: Moment,
}

impl Elector {
    fn new(durations: &'static Durations) -> Elector {
        Elector {
            durations,
            client: StoreClient::default(),
            role: ProcessRole::Idle,
            leader: None,
            version: 0,
            observed: Moment::ZERO,
        }
    }

    fn put(
        &mut self,
        purpose: &'static str,
        when: Condition,
        context: &mut Context<'_, StoreMessage>,
    ) {
        let (store, value) = (context.named(STORE), context.name(context.me).to_owned());
        let what =
            StoreRequest::Put { key: KEY, value, when, ttl: None, stamp: Some(context.wall()) };
        self.client.request_once(store, purpose, what, context);
    }

    fn retry(&mut self, context: &mut Context<'_, StoreMessage>) {
        if self.role == ProcessRole::Leader {
            self.put("renew", Condition::Version(self.version), context);
            context.alarm("retry", self.durations.retry);
        } else {
            let what = StoreRequest::Get { key: KEY, watch: false };
            self.client.request_once(context.named(STORE), "poll", what, context);
            let most = self.durations.retry + self.durations.retry * JITTER_TENTHS / 10;
            let again = context.dice().duration(self.durations.retry, most);
            context.alarm("retry", again);
        }
    }

    fn found(&mut self, entry: Option<StoreEntry>, context: &mut Context<'_, StoreMessage>) {
        let Some(entry) = entry else { return self.put("acquire", Condition::Missing, context) };
        self.leader = Some(entry.writer);
        if entry.version != self.version {
            (self.version, self.observed) = (entry.version, context.now());
        }
        let is_mine = entry.value == context.name(context.me);
        if is_mine || self.observed + self.durations.lease < context.now() {
            context.detect();
            self.put("acquire", Condition::Version(entry.version), context);
        }
    }

    fn written_down(&mut self, entry: &StoreEntry, context: &mut Context<'_, StoreMessage>) {
        (self.version, self.observed) = (entry.version, context.now());
        context.alarm("deadline", self.durations.renew_deadline);
        if self.role != ProcessRole::Leader {
            self.role = ProcessRole::Leader;
            self.leader = Some(context.me);
            context.lead(None);
            context.alarm("retry", self.durations.retry);
        }
    }
}

impl Actor<StoreMessage> for Elector {
    fn start(&mut self, context: &mut Context<'_, StoreMessage>) {
        *self = Elector::new(self.durations);
        context.alarm("retry", if context.me == 0 { Duration::ZERO } else { ms(500) });
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
            ("poll", StoreResponse::Found(entry)) => self.found(entry, context),
            // A leader that finds another's name goes on trying until its deadline, as client-go does.
            (_, StoreResponse::Done { now: Some(entry), .. }) => self.written_down(&entry, context),
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, StoreMessage>) {
        match alarm {
            "retry" => self.retry(context),
            "deadline" => {
                context.say("could not renew before its deadline");
                context.step_down();
                self.role = ProcessRole::Waiting;
                self.leader = None;
            }
            _ => {}
        }
    }

    fn stops_at(&self) -> Option<&'static str> {
        Some("deadline")
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(self.role).leader(self.leader)
    }
}

fn build(setup: &Setup, mixed: bool) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Open);
    for at in 1..=setup.contenders {
        let last = at == setup.contenders;
        stage.add_contender(Elector::new(if mixed && last { &IMPATIENT } else { &DEFAULT }));
    }
    stage.add_server(STORE, SimStore::new(StoreOptions::default()));
    Box::new(stage)
}
