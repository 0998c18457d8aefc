//! A lock by compare-and-swap, step by step: each step mends what the one before gets wrong.
//!
//! The lock is one key: "1" is locked, "0" is not. The process that changes "0" to "1" holds it.
//!
//! 1. `cas-lock-error`: a missing key is an error. If it was never created, there is never a leader.
//! 2. `cas-lock`: a missing key is created. A process that does not get the lock tries again every 2 s.
//! 3. `cas-lock-watch`: … waits for changes instead, and gets it at once.
//! 4. `cas-lock-ttl`: an owner that dies with a lock of the steps before keeps it for ever. So the lock has a TTL. Now
//!    an owner that was slow unlocks a lock that belongs to another process by then.
//! 5. `cas-lock-version`: it unlocks only what it has locked: by value *and* version.
//! 6. `cas-lock-renew`: it does not unlock, but renews every ttl/2: a leader. Every renewal makes a new version, and an
//!    owner that continues with the old one (`cas-lock-renew-stale`) loses the lock at the next.
//! 7. `cas-lock-check`: it checks the clock before it acts: not after 0.75 of the TTL.
//!
//! The last is as good as a lock gets: a write that is under way when the TTL ends arrives all the same.

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

const KEY: &str = "lock";
const LOCKED: &str = "1";
const UNLOCKED: &str = "0";

/// The pause between tries of a process that polls.
const POLL: Duration = ms(2000);
/// A process that watches looks again after this time: a notification may be lost.
const LOOK_AGAIN: Duration = ms(15_000);
const TTL: Duration = ms(10_000);
/// How long a process that does not lead, but only works, holds the lock, and how long it waits until it wants it again.
const HOLD: Duration = ms(5000);
const REST: Duration = ms(8500);

/// Checked at each unlock: whose lock was it?
const OWN_LOCK_ONLY: Promise = Promise::Own(OWN_LOCK_ONLY_TEXT);
const OWN_LOCK_ONLY_TEXT: &str = "only its owner unlocks a lock";
/// Checked at each renewal.
const RENEWED_IS_KEPT: Promise = Promise::Own(RENEWED_IS_KEPT_TEXT);
const RENEWED_IS_KEPT_TEXT: &str = "a lock that is renewed in time is kept";

/// One of the steps.
#[derive(Debug)]
struct Step {
    makes_missing_key: bool,
    polls: bool,
    ttl: Option<Duration>,
    versions: bool,
    renews: bool,
    /// Whether the version of a renewal is used for the next.
    follows_versions: bool,
    checks: bool,
}

const ERROR_STEP: Step = Step {
    makes_missing_key: false,
    polls: true,
    ttl: None,
    versions: false,
    renews: false,
    follows_versions: true,
    checks: false,
};
const POLL_STEP: Step = Step { makes_missing_key: true, ..ERROR_STEP };
const WATCH_STEP: Step = Step { polls: false, ..POLL_STEP };
const TTL_STEP: Step = Step { ttl: Some(TTL), ..WATCH_STEP };
const VERSION_STEP: Step = Step { versions: true, ..TTL_STEP };
const RENEW_STEP: Step = Step { renews: true, ..VERSION_STEP };
const STALE_RENEW_STEP: Step = Step { follows_versions: false, ..RENEW_STEP };
const CHECK_STEP: Step = Step { checks: true, ..RENEW_STEP };

const ORIGIN: &str = "the usual lock on a key-value store";

pub(super) const CAS_LOCK_ERROR: Algorithm = Algorithm {
    name: "cas-lock-error",
    about: "compare-and-swap \"0\" to \"1\"; a missing key is an error",
    origin: ORIGIN,
    promises: &[Promise::LeaderAtEnd],
    contenders: 5,
    patience: None,
    build: |setup| build(setup, &ERROR_STEP),
};

pub(super) const CAS_LOCK: Algorithm = Algorithm {
    name: "cas-lock",
    about: "compare-and-swap; a missing key is created; a process without the lock tries again every 2 s",
    promises: &[Promise::OneBeliever, Promise::OneWriter, POLLED_WITHIN, Promise::LeaderAtEnd],
    build: |setup| build(setup, &POLL_STEP),
    ..CAS_LOCK_ERROR
};

/// Every 2 s, and the time of messages.
const POLLED_WITHIN: Promise = Promise::VacantAtMost(ms(2010));
const WATCHED_WITHIN: Promise = Promise::VacantAtMost(ms(10));

pub(super) const CAS_LOCK_WATCH: Algorithm = Algorithm {
    name: "cas-lock-watch",
    about: "compare-and-swap; a process without the lock waits for changes",
    promises: &[Promise::OneBeliever, Promise::OneWriter, WATCHED_WITHIN, Promise::LeaderAtEnd],
    build: |setup| build(setup, &WATCH_STEP),
    ..CAS_LOCK
};

pub(super) const CAS_LOCK_TTL: Algorithm = Algorithm {
    name: "cas-lock-ttl",
    about: "a lock that ends by itself after 10 s; unlocked by value",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        OWN_LOCK_ONLY,
        EXPIRED_WITHIN,
        Promise::LeaderAtEnd,
    ],
    patience: Some(ms(12_000)),
    build: |setup| build(setup, &TTL_STEP),
    ..CAS_LOCK
};

/// The TTL, and the time of messages.
const EXPIRED_WITHIN: Promise = Promise::VacantAtMost(ms(10_050));

pub(super) const CAS_LOCK_VERSION: Algorithm = Algorithm {
    name: "cas-lock-version",
    about: "a lock that ends by itself after 10 s; unlocked by value and version, so only by its owner",
    build: |setup| build(setup, &VERSION_STEP),
    ..CAS_LOCK_TTL
};

pub(super) const CAS_LOCK_RENEW: Algorithm = Algorithm {
    name: "cas-lock-renew",
    about: "a lock of 10 s that its owner renews every 5 s: a leader",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        RENEWED_IS_KEPT,
        EXPIRED_WITHIN,
        Promise::LeaderAtEnd,
    ],
    build: |setup| build(setup, &RENEW_STEP),
    ..CAS_LOCK_TTL
};

pub(super) const CAS_LOCK_RENEW_STALE: Algorithm = Algorithm {
    name: "cas-lock-renew-stale",
    about: "a lock renewed with its first version, though each renewal makes a new one",
    build: |setup| build(setup, &STALE_RENEW_STEP),
    ..CAS_LOCK_RENEW
};

pub(super) const CAS_LOCK_CHECK: Algorithm = Algorithm {
    name: "cas-lock-check",
    about: "a renewed lock whose owner acts only within 0.75 of its time since the last renewal was sent",
    build: |setup| build(setup, &CHECK_STEP),
    ..CAS_LOCK_RENEW
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "cas-lock-error-missing",
        algorithm: &CAS_LOCK_ERROR,
        about: "The key was never created, and each process takes that for an error: there is never a leader.",
        lasts: Duration::from_secs(20),
        script: "",
        breaks: &[Promise::LeaderAtEnd],
    },
    Story {
        name: "cas-lock-polling",
        algorithm: &CAS_LOCK,
        about: "The lock goes from hand to hand. The next owner learns of that when it tries again, up to 2 s later.",
        lasts: Duration::from_secs(32),
        script: "",
        breaks: &[],
    },
    Story {
        name: "cas-lock-crash",
        algorithm: &CAS_LOCK,
        about: "The owner dies. No other process may unlock, and the lock is locked for ever.",
        lasts: Duration::from_secs(60),
        script: "at 4s crash leader\n",
        breaks: &[POLLED_WITHIN, Promise::LeaderAtEnd],
    },
    Story {
        name: "cas-lock-watching",
        algorithm: &CAS_LOCK_WATCH,
        about: "The lock goes from hand to hand, and waiting processes are told at once.",
        lasts: Duration::from_secs(32),
        script: "",
        breaks: &[],
    },
    Story {
        name: "cas-lock-ttl-crash",
        algorithm: &CAS_LOCK_TTL,
        about: "The owner dies. After 10 s its lock ends by itself, and the next process has it.",
        lasts: Duration::from_secs(38),
        script: "at 2s crash leader\n",
        breaks: &[],
    },
    Story {
        name: "cas-lock-ttl-foreign-unlock",
        algorithm: &CAS_LOCK_TTL,
        about: "The owner is paused until its lock belongs to another process, and then unlocks it: the value is \"1\", as it left it. A third process takes the lock that the second still has, and so on.",
        lasts: Duration::from_secs(38),
        script: "at 2s pause leader for 10s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter, OWN_LOCK_ONLY],
    },
    Story {
        name: "cas-lock-version-foreign-unlock",
        algorithm: &CAS_LOCK_VERSION,
        about: "The same with versions: the unlock is refused. But before that the old owner goes on with its work, and what it writes is taken.",
        lasts: Duration::from_secs(38),
        script: "at 2s pause leader for 10s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "cas-lock-renew-crash",
        algorithm: &CAS_LOCK_RENEW,
        about: "The leader renews its lock for as long as it lives, and another has it within 10 s of its death.",
        lasts: Duration::from_secs(60),
        script: "at 31s crash leader\n",
        breaks: &[],
    },
    Story {
        name: "cas-lock-renew-pause",
        algorithm: &CAS_LOCK_RENEW,
        about: "The leader is paused for longer than its lock lasts. Its next renewal is refused, but what it had begun it writes before that.",
        lasts: Duration::from_secs(60),
        script: "at 21s pause leader for 30s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Story {
        name: "cas-lock-renew-stale-version",
        algorithm: &CAS_LOCK_RENEW_STALE,
        about: "There are no faults, and the leader loses its lock at the second renewal: it names a version that its own first renewal has replaced.",
        lasts: Duration::from_secs(50),
        script: "",
        breaks: &[RENEWED_IS_KEPT],
    },
    Story {
        name: "cas-lock-check-pause",
        algorithm: &CAS_LOCK_CHECK,
        about: "The leader is paused for longer than its lock lasts, and checks the clock before it writes: it writes nothing.",
        lasts: Duration::from_secs(60),
        script: "at 21s pause leader for 30s\n",
        breaks: &[Promise::OneBeliever],
    },
    Story {
        name: "cas-lock-check-partition",
        algorithm: &CAS_LOCK_CHECK,
        about: "The leader cannot reach the store. It stops by itself before its lock ends.",
        lasts: Duration::from_secs(60),
        script: "at 21s cut leader store for 20s\n",
        breaks: &[],
    },
    Story {
        name: "cas-lock-check-late-write",
        algorithm: &CAS_LOCK_CHECK,
        about: "The leader checks the clock, which is fine. What it then writes is under way for longer than the lock lasts, and is taken after what its successor wrote.",
        lasts: Duration::from_secs(60),
        script: "at 21s slow leader by 15s for 1s\nat 21s cut leader store for 20s\n",
        breaks: &[Promise::OneWriter],
    },
];

#[derive(Debug)]
struct Locker {
    step: &'static Step,
    client: StoreClient,
    role: ProcessRole,
    /// The owner of the lock, as far as this process knows.
    owner: Option<ProcessId>,
    version: u64,
    asked: Moment,
    /// When it sent the request for the lock that it has, or for the last renewal.
    locked: Moment,
    waited: bool,
}

impl Locker {
    fn new(step: &'static Step) -> Locker {
        Locker {
            step,
            client: StoreClient::default(),
            role: ProcessRole::Idle,
            owner: None,
            version: 0,
            asked: Moment::ZERO,
            locked: Moment::ZERO,
            waited: false,
        }
    }

    fn ask(
        &mut self,
        purpose: &'static str,
        what: StoreRequest,
        context: &mut Context<'_, StoreMessage>,
    ) {
        let store = context.named(STORE);
        self.asked = context.now();
        self.client.request(store, purpose, what, context);
    }

    /// Changes the lock's value.
    fn swap(
        &mut self,
        purpose: &'static str,
        to: &str,
        when: Condition,
        context: &mut Context<'_, StoreMessage>,
    ) {
        let ttl = self.step.ttl.filter(|_| to == LOCKED);
        let what = StoreRequest::Put { key: KEY, value: to.to_owned(), when, ttl, stamp: None };
        self.ask(purpose, what, context);
    }

    fn lock(&mut self, context: &mut Context<'_, StoreMessage>) {
        self.role = ProcessRole::Candidate;
        context.cancel("again");
        let purpose = if self.step.polls && self.waited { "poll" } else { "lock" };
        self.swap(purpose, LOCKED, Condition::Is(UNLOCKED.to_owned()), context);
    }

    fn wait(&mut self, context: &mut Context<'_, StoreMessage>) {
        self.role = ProcessRole::Waiting;
        self.waited = true;
        if self.step.polls {
            context.alarm("again", POLL);
        } else {
            self.ask("wait", StoreRequest::Get { key: KEY, watch: true }, context);
        }
    }

    fn locked(&mut self, entry: &StoreEntry, context: &mut Context<'_, StoreMessage>) {
        context.detect();
        context.cancel("again");
        self.role = ProcessRole::Leader;
        self.owner = Some(context.me);
        self.version = entry.version;
        self.locked = self.asked;
        context.lead(None);
        match self.step.ttl {
            Some(ttl) if self.step.renews => context.alarm("renew", ttl / 2),
            _ => context.alarm("unlock", HOLD),
        }
    }

    /// The condition that the lock is as this process left it.
    fn still_mine(&self) -> Condition {
        match self.step.versions {
            true => Condition::Both(LOCKED.to_owned(), self.version),
            false => Condition::Is(LOCKED.to_owned()),
        }
    }

    fn renewed(&mut self, entry: &StoreEntry, context: &mut Context<'_, StoreMessage>) {
        if self.step.follows_versions {
            self.version = entry.version;
        }
        self.locked = self.asked;
        context.kept(RENEWED_IS_KEPT_TEXT);
        context.alarm("renew", self.step.ttl.unwrap_or(TTL) / 2);
    }

    /// A renewal was refused.
    fn lost(&mut self, entry: Option<&StoreEntry>, context: &mut Context<'_, StoreMessage>) {
        if entry.is_some_and(|entry| entry.writer == context.me) {
            context.broke(RENEWED_IS_KEPT_TEXT, "a leader cannot renew the lock that it has");
        }
        self.stop(context);
        self.wait(context);
    }

    fn stop(&mut self, context: &mut Context<'_, StoreMessage>) {
        context.step_down();
        context.cancel("renew");
        self.owner = None;
    }

    fn unlock(&mut self, context: &mut Context<'_, StoreMessage>) {
        self.stop(context);
        self.role = ProcessRole::Idle;
        self.swap("unlock", UNLOCKED, self.still_mine(), context);
        context.alarm("again", REST);
    }

    fn answer(
        &mut self,
        purpose: &str,
        answer: StoreResponse,
        context: &mut Context<'_, StoreMessage>,
    ) {
        match (purpose, answer) {
            ("lock" | "poll" | "make", StoreResponse::Done { now: Some(entry), .. }) => {
                self.locked(&entry, context);
            }
            ("lock" | "poll", StoreResponse::Refused(None)) if self.step.makes_missing_key => {
                self.swap("make", LOCKED, Condition::Missing, context);
            }
            ("lock" | "poll" | "make", StoreResponse::Refused(entry)) => {
                self.owner = entry.map(|entry| entry.writer);
                self.wait(context);
            }
            ("wait" | "poll", StoreResponse::Found(entry)) => {
                match entry.filter(|entry| entry.value == LOCKED) {
                    Some(entry) => {
                        self.owner = Some(entry.writer);
                        context.alarm("again", LOOK_AGAIN);
                    }
                    None => self.lock(context),
                }
            }
            ("renew", StoreResponse::Done { now: Some(entry), .. }) => {
                self.renewed(&entry, context)
            }
            ("renew", StoreResponse::Refused(entry)) => self.lost(entry.as_ref(), context),
            ("unlock", StoreResponse::Done { before: Some(before), .. }) => {
                if before.writer == context.me {
                    context.kept(OWN_LOCK_ONLY_TEXT);
                } else {
                    let (me, other) = (context.name(context.me), context.name(before.writer));
                    let how = format!("{me} unlocks the lock of {other}");
                    context.broke(OWN_LOCK_ONLY_TEXT, how);
                }
            }
            ("unlock", _) => context.kept(OWN_LOCK_ONLY_TEXT),
            _ => {}
        }
    }
}

impl Actor<StoreMessage> for Locker {
    fn start(&mut self, context: &mut Context<'_, StoreMessage>) {
        *self = Locker::new(self.step);
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
            StoreMessage::Changed { .. } if self.role == ProcessRole::Waiting => {
                context.detect();
                self.lock(context);
            }
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, StoreMessage>) {
        match alarm {
            "again" if self.step.polls || self.role != ProcessRole::Waiting => self.lock(context),
            "again" => self.ask("poll", StoreRequest::Get { key: KEY, watch: true }, context),
            "renew" => self.swap("renew", LOCKED, self.still_mine(), context),
            "unlock" => self.unlock(context),
            "answer" => match self.client.waits_for() {
                // No answer counts as no renewal.
                "renew" => self.lost(None, context),
                "unlock" => self.swap("unlock", UNLOCKED, self.still_mine(), context),
                _ => self.wait(context),
            },
            _ => {}
        }
    }

    fn may_write(&mut self, context: &mut Context<'_, StoreMessage>) -> bool {
        let (true, Some(ttl)) = (self.step.checks, self.step.ttl) else { return true };
        let may = self.locked + ttl * 3 / 4 > context.now();
        if !may {
            context.say("has not renewed for too long: it may not act any more");
            self.stop(context);
            self.wait(context);
        }
        may
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(self.role).leader(self.owner)
    }
}

fn build(setup: &Setup, step: &'static Step) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Open);
    for _ in 0..setup.contenders {
        stage.add_contender(Locker::new(step));
    }
    stage.add_server(STORE, SimStore::new(StoreOptions::default()));
    Box::new(stage)
}
