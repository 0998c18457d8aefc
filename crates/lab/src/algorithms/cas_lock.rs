//! A lock made of compare-and-swap, step by step: each step mends what the one before gets wrong.
//!
//! The lock is one key: "1" is locked, "0" is not. Whoever changes "0" to "1" holds it.
//!
//! 1. `cas-lock-error`: a key that is not there is an error. If nobody has made it, nobody ever leads.
//! 2. `cas-lock`: a key that is not there is made. Who does not get the lock tries again every 2 s.
//! 3. `cas-lock-watch`: … waits for changes instead, and has it at once.
//! 4. `cas-lock-ttl`: whoever dies with a lock of the steps before keeps it for ever. So it has a time to
//!    live. Now an owner that was slow unlocks a lock that is somebody else's by then.
//! 5. `cas-lock-version`: it unlocks only what it has locked: by value *and* version.
//! 6. `cas-lock-renew`: it does not unlock, but renews every ttl/2: a leader. Every renewal makes a new
//!    version, and who goes on with the old one (`cas-lock-renew-stale`) loses the lock by the next.
//! 7. `cas-lock-check`: before it acts it looks at the clock: not after 0.75 of the time to live.
//!
//! The last is as good as a lock gets: what is on its way when the time is up arrives all the same.

use std::time::Duration;

use tenure_replica::Moment;

use super::{
    Algorithm, Scenario, Setup,
    store::{Answer, Ask, Entry, Line, Rules, STORE, Say, Store, When},
};
use crate::{
    engine::ms,
    stage::{Gate, NodeId, Part, Play, Program, Promise, Scene, Stage, View},
};

const KEY: &str = "lock";
const LOCKED: &str = "1";
const UNLOCKED: &str = "0";

/// Who polls tries again after this time.
const POLL: Duration = ms(2000);
/// Who waits for changes looks again after this time all the same: news may be lost.
const LOOK_AGAIN: Duration = ms(15_000);
const TTL: Duration = ms(10_000);
/// Who does not lead, but only has something to do, holds the lock so long, and wants it again after
/// that much.
const HOLD: Duration = ms(5000);
const REST: Duration = ms(8500);

/// Judged when an unlock is done: whose lock was it?
const OWN_LOCK_ONLY: Promise = Promise::Own(OWN_LOCK_ONLY_TEXT);
const OWN_LOCK_ONLY_TEXT: &str = "nobody unlocks somebody else's lock";
/// Judged at each renewal.
const RENEWED_IS_KEPT: Promise = Promise::Own(RENEWED_IS_KEPT_TEXT);
const RENEWED_IS_KEPT_TEXT: &str = "who renews in time keeps the lock";

/// One of the steps.
#[derive(Debug)]
struct Step {
    makes_missing_key: bool,
    polls: bool,
    ttl: Option<Duration>,
    versions: bool,
    renews: bool,
    /// A renewal's own version counts for the next.
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
    about: "compare-and-swap \"0\" to \"1\"; a key that is not there is an error",
    origin: ORIGIN,
    promises: &[Promise::SomebodyLeads],
    contenders: 5,
    patience: None,
    cast: |setup| cast(setup, &ERROR_STEP),
};

pub(super) const CAS_LOCK: Algorithm = Algorithm {
    name: "cas-lock",
    about: "compare-and-swap; a key that is not there is made; who does not get the lock tries again every 2 s",
    promises: &[Promise::OneBeliever, Promise::OneWriter, POLLED_WITHIN, Promise::SomebodyLeads],
    cast: |setup| cast(setup, &POLL_STEP),
    ..CAS_LOCK_ERROR
};

/// Every 2 s, and what messages take.
const POLLED_WITHIN: Promise = Promise::VacantAtMost(ms(2010));
const WATCHED_WITHIN: Promise = Promise::VacantAtMost(ms(10));

pub(super) const CAS_LOCK_WATCH: Algorithm = Algorithm {
    name: "cas-lock-watch",
    about: "compare-and-swap; who does not get the lock waits for changes",
    promises: &[Promise::OneBeliever, Promise::OneWriter, WATCHED_WITHIN, Promise::SomebodyLeads],
    cast: |setup| cast(setup, &WATCH_STEP),
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
        Promise::SomebodyLeads,
    ],
    patience: Some(ms(12_000)),
    cast: |setup| cast(setup, &TTL_STEP),
    ..CAS_LOCK
};

/// The time to live, and what messages take.
const EXPIRED_WITHIN: Promise = Promise::VacantAtMost(ms(10_050));

pub(super) const CAS_LOCK_VERSION: Algorithm = Algorithm {
    name: "cas-lock-version",
    about: "a lock that ends by itself after 10 s; unlocked by value and version, so only by its owner",
    cast: |setup| cast(setup, &VERSION_STEP),
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
        Promise::SomebodyLeads,
    ],
    cast: |setup| cast(setup, &RENEW_STEP),
    ..CAS_LOCK_TTL
};

pub(super) const CAS_LOCK_RENEW_STALE: Algorithm = Algorithm {
    name: "cas-lock-renew-stale",
    about: "a lock renewed with the version of its first day, though each renewal makes a new one",
    cast: |setup| cast(setup, &STALE_RENEW_STEP),
    ..CAS_LOCK_RENEW
};

pub(super) const CAS_LOCK_CHECK: Algorithm = Algorithm {
    name: "cas-lock-check",
    about: "a renewed lock whose owner acts only within 0.75 of its time since the last renewal was asked for",
    cast: |setup| cast(setup, &CHECK_STEP),
    ..CAS_LOCK_RENEW
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "cas-lock-error-missing",
        algorithm: &CAS_LOCK_ERROR,
        about: "Nobody has made the key, and each takes that for an error: nobody ever leads.",
        lasts: Duration::from_secs(20),
        script: "",
        breaks: &[Promise::SomebodyLeads],
    },
    Scenario {
        name: "cas-lock-polling",
        algorithm: &CAS_LOCK,
        about: "The lock goes from hand to hand. Whoever wants it learns of that when it next tries, up to 2 s later.",
        lasts: Duration::from_secs(32),
        script: "",
        breaks: &[],
    },
    Scenario {
        name: "cas-lock-crash",
        algorithm: &CAS_LOCK,
        about: "The owner dies. Nobody else may unlock, and the lock is locked for ever.",
        lasts: Duration::from_secs(60),
        script: "at 4s crash leader\n",
        breaks: &[POLLED_WITHIN, Promise::SomebodyLeads],
    },
    Scenario {
        name: "cas-lock-watching",
        algorithm: &CAS_LOCK_WATCH,
        about: "The lock goes from hand to hand, and whoever wants it is told at once.",
        lasts: Duration::from_secs(32),
        script: "",
        breaks: &[],
    },
    Scenario {
        name: "cas-lock-ttl-crash",
        algorithm: &CAS_LOCK_TTL,
        about: "The owner dies. After 10 s its lock ends by itself, and the next has it.",
        lasts: Duration::from_secs(38),
        script: "at 2s crash leader\n",
        breaks: &[],
    },
    Scenario {
        name: "cas-lock-ttl-foreign-unlock",
        algorithm: &CAS_LOCK_TTL,
        about: "The owner stands still until its lock is somebody else's, and then unlocks it: the value is \"1\", as it left it. A third takes the lock that the second still has, and so on down the line.",
        lasts: Duration::from_secs(38),
        script: "at 2s pause leader for 10s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter, OWN_LOCK_ONLY],
    },
    Scenario {
        name: "cas-lock-version-foreign-unlock",
        algorithm: &CAS_LOCK_VERSION,
        about: "The same with versions: the unlock is refused. But before that the old owner goes on with its work, and what it writes is taken.",
        lasts: Duration::from_secs(38),
        script: "at 2s pause leader for 10s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "cas-lock-renew-crash",
        algorithm: &CAS_LOCK_RENEW,
        about: "The leader renews its lock for as long as it lives, and another has it within 10 s of its death.",
        lasts: Duration::from_secs(60),
        script: "at 31s crash leader\n",
        breaks: &[],
    },
    Scenario {
        name: "cas-lock-renew-pause",
        algorithm: &CAS_LOCK_RENEW,
        about: "The leader stands still for longer than its lock lasts. Its next renewal is refused, but what it had begun it writes before that.",
        lasts: Duration::from_secs(60),
        script: "at 21s pause leader for 30s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "cas-lock-renew-stale-version",
        algorithm: &CAS_LOCK_RENEW_STALE,
        about: "Nothing goes wrong, and the leader loses its lock with the second renewal: it names a version that its own first renewal has replaced.",
        lasts: Duration::from_secs(50),
        script: "",
        breaks: &[RENEWED_IS_KEPT],
    },
    Scenario {
        name: "cas-lock-check-pause",
        algorithm: &CAS_LOCK_CHECK,
        about: "The leader stands still for longer than its lock lasts, and looks at the clock before it writes: it writes nothing.",
        lasts: Duration::from_secs(60),
        script: "at 21s pause leader for 30s\n",
        breaks: &[Promise::OneBeliever],
    },
    Scenario {
        name: "cas-lock-check-partition",
        algorithm: &CAS_LOCK_CHECK,
        about: "The leader cannot reach the store. It stops by itself before its lock ends.",
        lasts: Duration::from_secs(60),
        script: "at 21s cut leader store for 20s\n",
        breaks: &[],
    },
    Scenario {
        name: "cas-lock-check-late-write",
        algorithm: &CAS_LOCK_CHECK,
        about: "The leader looks at the clock, and all is well. What it then writes is on the road for longer than the lock lasts, and is taken after what its successor wrote.",
        lasts: Duration::from_secs(60),
        script: "at 21s slow leader by 15s for 1s\nat 21s cut leader store for 20s\n",
        breaks: &[Promise::OneWriter],
    },
];

#[derive(Debug)]
struct Locker {
    step: &'static Step,
    line: Line,
    part: Part,
    /// Whose lock it is, as far as one can see.
    owner: Option<NodeId>,
    version: u64,
    asked: Moment,
    /// When it asked for the lock that it has, or for its last renewal.
    locked: Moment,
    waited: bool,
}

impl Locker {
    fn new(step: &'static Step) -> Locker {
        Locker {
            step,
            line: Line::default(),
            part: Part::Idle,
            owner: None,
            version: 0,
            asked: Moment::ZERO,
            locked: Moment::ZERO,
            waited: false,
        }
    }

    fn ask(&mut self, purpose: &'static str, what: Ask, scene: &mut Scene<'_, Say>) {
        let store = scene.named(STORE);
        self.asked = scene.now();
        self.line.ask(store, purpose, what, scene);
    }

    /// Changes the lock's value.
    fn swap(&mut self, purpose: &'static str, to: &str, when: When, scene: &mut Scene<'_, Say>) {
        let ttl = self.step.ttl.filter(|_| to == LOCKED);
        let what = Ask::Put { key: KEY, value: to.to_owned(), when, ttl, stamp: None };
        self.ask(purpose, what, scene);
    }

    fn lock(&mut self, scene: &mut Scene<'_, Say>) {
        self.part = Part::Candidate;
        scene.cancel("again");
        let purpose = if self.step.polls && self.waited { "poll" } else { "lock" };
        self.swap(purpose, LOCKED, When::Is(UNLOCKED.to_owned()), scene);
    }

    fn wait(&mut self, scene: &mut Scene<'_, Say>) {
        self.part = Part::Waiting;
        self.waited = true;
        if self.step.polls {
            scene.alarm("again", POLL);
        } else {
            self.ask("wait", Ask::Get { key: KEY, watch: true }, scene);
        }
    }

    fn locked(&mut self, entry: &Entry, scene: &mut Scene<'_, Say>) {
        scene.detect();
        scene.cancel("again");
        self.part = Part::Leader;
        self.owner = Some(scene.me);
        self.version = entry.version;
        self.locked = self.asked;
        scene.lead(None);
        match self.step.ttl {
            Some(ttl) if self.step.renews => scene.alarm("renew", ttl / 2),
            _ => scene.alarm("unlock", HOLD),
        }
    }

    /// The condition that the lock is still as this process left it.
    fn still_mine(&self) -> When {
        match self.step.versions {
            true => When::Both(LOCKED.to_owned(), self.version),
            false => When::Is(LOCKED.to_owned()),
        }
    }

    fn renewed(&mut self, entry: &Entry, scene: &mut Scene<'_, Say>) {
        if self.step.follows_versions {
            self.version = entry.version;
        }
        self.locked = self.asked;
        scene.kept(RENEWED_IS_KEPT_TEXT);
        scene.alarm("renew", self.step.ttl.unwrap_or(TTL) / 2);
    }

    /// A renewal was refused.
    fn lost(&mut self, entry: Option<&Entry>, scene: &mut Scene<'_, Say>) {
        if entry.is_some_and(|entry| entry.writer == scene.me) {
            scene.broke(RENEWED_IS_KEPT_TEXT, "a leader cannot renew the lock that it has");
        }
        self.stop(scene);
        self.wait(scene);
    }

    fn stop(&mut self, scene: &mut Scene<'_, Say>) {
        scene.step_down();
        scene.cancel("renew");
        self.owner = None;
    }

    fn unlock(&mut self, scene: &mut Scene<'_, Say>) {
        self.stop(scene);
        self.part = Part::Idle;
        self.swap("unlock", UNLOCKED, self.still_mine(), scene);
        scene.alarm("again", REST);
    }

    fn answer(&mut self, purpose: &str, answer: Answer, scene: &mut Scene<'_, Say>) {
        match (purpose, answer) {
            ("lock" | "poll" | "make", Answer::Done { now: Some(entry), .. }) => {
                self.locked(&entry, scene);
            }
            ("lock" | "poll", Answer::Refused(None)) if self.step.makes_missing_key => {
                self.swap("make", LOCKED, When::Missing, scene);
            }
            ("lock" | "poll" | "make", Answer::Refused(entry)) => {
                self.owner = entry.map(|entry| entry.writer);
                self.wait(scene);
            }
            ("wait" | "poll", Answer::Found(entry)) => {
                match entry.filter(|entry| entry.value == LOCKED) {
                    Some(entry) => {
                        self.owner = Some(entry.writer);
                        scene.alarm("again", LOOK_AGAIN);
                    }
                    None => self.lock(scene),
                }
            }
            ("renew", Answer::Done { now: Some(entry), .. }) => self.renewed(&entry, scene),
            ("renew", Answer::Refused(entry)) => self.lost(entry.as_ref(), scene),
            ("unlock", Answer::Done { before: Some(before), .. }) => {
                if before.writer == scene.me {
                    scene.kept(OWN_LOCK_ONLY_TEXT);
                } else {
                    let (me, other) = (scene.name(scene.me), scene.name(before.writer));
                    let how = format!("{me} unlocks the lock of {other}");
                    scene.broke(OWN_LOCK_ONLY_TEXT, how);
                }
            }
            ("unlock", _) => scene.kept(OWN_LOCK_ONLY_TEXT),
            _ => {}
        }
    }
}

impl Program<Say> for Locker {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        *self = Locker::new(self.step);
        scene.alarm("again", Duration::ZERO);
    }

    fn receive(&mut self, _from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match word {
            Say::Answer { number, purpose, answer } if self.line.hears(number, scene) => {
                self.answer(purpose, answer, scene);
            }
            Say::Changed { .. } if self.part == Part::Waiting => {
                scene.detect();
                self.lock(scene);
            }
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "again" if self.step.polls || self.part != Part::Waiting => self.lock(scene),
            "again" => self.ask("poll", Ask::Get { key: KEY, watch: true }, scene),
            "renew" => self.swap("renew", LOCKED, self.still_mine(), scene),
            "unlock" => self.unlock(scene),
            "answer" => match self.line.waits_for() {
                // No answer is no renewal.
                "renew" => self.lost(None, scene),
                "unlock" => self.swap("unlock", UNLOCKED, self.still_mine(), scene),
                _ => self.wait(scene),
            },
            _ => {}
        }
    }

    fn may_write(&mut self, scene: &mut Scene<'_, Say>) -> bool {
        let (true, Some(ttl)) = (self.step.checks, self.step.ttl) else { return true };
        let may = self.locked + ttl * 3 / 4 > scene.now();
        if !may {
            scene.say("has not renewed for too long: it may not act any more");
            self.stop(scene);
            self.wait(scene);
        }
        may
    }

    fn view(&self) -> View {
        View::new(self.part).leader(self.owner)
    }
}

fn cast(setup: &Setup, step: &'static Step) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Open);
    for _ in 0..setup.contenders {
        stage.contender(Locker::new(step));
    }
    stage.server(STORE, Store::new(Rules::default()));
    Box::new(stage)
}
