//! Why compare-and-swap alone is not enough.
//!
//! The data are in the store itself, and a leader changes them by compare-and-swap: it reads, and writes if
//! what it has read is still there. That keeps two writers from overwriting each other by accident. It does
//! not keep out a leader whose lease is over: it reads the value as it is *now*, unchanged or not, and its
//! swap succeeds. Compare-and-swap asks whether the value has changed, not whether the writer may write.
//!
//! `cas-guarded` asks that, too: the swap also compares the lease itself, in the same step. Its token is
//! the revision in which the lease was made. Nobody here looks at a clock: the swap alone is to keep order.

use std::time::Duration;

use super::{
    Algorithm, Scenario, Setup,
    store::{Answer, Ask, Line, Rules, STORE, Say, Store, When},
};
use crate::{
    engine::ms,
    stage::{Gate, NodeId, Part, Play, Program, Promise, Scene, Stage, View},
};

const KEY: &str = "leader";
const DATA: &str = "data";
const TTL: Duration = ms(10_000);
const RENEW: Duration = ms(3333);
/// Who waits for changes looks again after this time all the same: news may be lost.
const LOOK_AGAIN: Duration = ms(15_000);
/// The leader works seldom, so that nobody has written while it stood still.
const WORK: Duration = ms(30_000);

/// Judged at every swap that succeeded: whose lease is it?
const LEASE_HELD: Promise = Promise::Own(LEASE_HELD_TEXT);
const LEASE_HELD_TEXT: &str = "only who has the lease changes the data";

pub(super) const CAS_ONLY: Algorithm = Algorithm {
    name: "cas-only",
    about: "a lease, and work by compare-and-swap: only who has seen the newest value replaces it",
    origin: "optimistic concurrency as a lock",
    promises: &[LEASE_HELD, Promise::OneWriter, Promise::SomebodyLeads],
    contenders: 2,
    patience: Some(ms(14_000)),
    cast: |setup| cast(setup, false),
};

pub(super) const CAS_GUARDED: Algorithm = Algorithm {
    name: "cas-guarded",
    about: "compare-and-swap of the value and of the lease at once: only who has it replaces the newest value",
    origin: "etcd transactions on the create revision",
    cast: |setup| cast(setup, true),
    ..CAS_ONLY
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "cas-only-unchanged",
        algorithm: &CAS_ONLY,
        about: "The leader stands still, its lease ends, another leads and has nothing to write yet. The old one goes on, finds the value unchanged and swaps it: its lease is over for 25 s.",
        lasts: Duration::from_secs(60),
        script: "at 5s pause a for 30s\n",
        breaks: &[LEASE_HELD],
    },
    Scenario {
        name: "cas-only-reread",
        algorithm: &CAS_ONLY,
        about: "The old leader goes on only after its successor has written. It reads what is there, and its swap succeeds all the same.",
        lasts: Duration::from_secs(60),
        script: "at 5s pause a for 40s\n",
        breaks: &[LEASE_HELD, Promise::OneWriter],
    },
    Scenario {
        name: "cas-guarded-unchanged",
        algorithm: &CAS_GUARDED,
        about: "The value is unchanged, but the lease is another one: refused.",
        lasts: Duration::from_secs(60),
        script: "at 5s pause a for 30s\n",
        breaks: &[],
    },
    Scenario {
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
    /// One for the lease, one for the work.
    line: Line,
    desk: Line,
    part: Part,
    leader: Option<NodeId>,
    token: Option<u64>,
    /// What it had in hand when it began its work.
    began: (u64, Option<u64>),
}

impl Worker {
    fn put(&mut self, purpose: &'static str, when: When, scene: &mut Scene<'_, Say>) {
        let (store, value) = (scene.named(STORE), scene.name(scene.me).to_owned());
        let what = Ask::Put { key: KEY, value, when, ttl: Some(TTL), stamp: None };
        self.line.ask(store, purpose, what, scene);
    }

    fn stop(&mut self, leader: Option<NodeId>, scene: &mut Scene<'_, Say>) {
        scene.step_down();
        scene.cancel("renew");
        self.token = None;
        self.wait(leader, scene);
    }

    fn renew(&mut self, scene: &mut Scene<'_, Say>) {
        self.put("renew", When::Is(scene.name(scene.me).to_owned()), scene);
    }

    fn wait(&mut self, leader: Option<NodeId>, scene: &mut Scene<'_, Say>) {
        self.part = Part::Waiting;
        self.leader = leader;
        let what = Ask::Get { key: KEY, watch: true };
        self.line.ask(scene.named(STORE), "poll", what, scene);
        scene.alarm("again", LOOK_AGAIN);
    }

    fn won(&mut self, token: u64, scene: &mut Scene<'_, Say>) {
        scene.detect();
        scene.cancel("again");
        self.part = Part::Leader;
        self.leader = Some(scene.me);
        self.token = Some(token);
        scene.lead(self.token);
        scene.alarm("renew", RENEW);
    }

    /// What it has read is still there, it hopes. What it has begun it ends: work does not look left or
    /// right.
    fn swap(&mut self, seen: Option<u64>, scene: &mut Scene<'_, Say>) {
        let (tenure, token) = self.began;
        let guard = token.filter(|_| self.guarded).map(|token| (KEY, token));
        let what = Ask::Work { key: DATA, seen, guard, tenure };
        self.desk.ask_once(scene.named(STORE), "work", what, scene);
    }
}

impl Program<Say> for Worker {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        *self = Worker { guarded: self.guarded, ..Worker::default() };
        scene.alarm("again", if scene.me == 0 { Duration::ZERO } else { RENEW });
    }

    fn receive(&mut self, _from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match word {
            Say::Answer { number, purpose: "read", answer: Answer::Found(entry) }
                if self.desk.hears(number, scene) =>
            {
                self.swap(entry.map(|entry| entry.version), scene);
            }
            Say::Answer { number, purpose: "work", .. } => {
                self.desk.hears(number, scene);
            }
            Say::Answer { number, purpose, answer } if self.line.hears(number, scene) => {
                match (purpose, answer) {
                    ("acquire" | "poll", Answer::Done { now: Some(entry), .. }) => {
                        self.won(entry.created, scene);
                    }
                    ("acquire" | "poll", Answer::Refused(entry)) => {
                        self.wait(entry.map(|entry| entry.writer), scene);
                    }
                    ("poll", Answer::Found(None)) => self.put("acquire", When::Missing, scene),
                    ("renew", Answer::Done { .. }) => scene.alarm("renew", RENEW),
                    ("renew", Answer::Refused(entry)) => {
                        self.stop(entry.map(|entry| entry.writer), scene);
                    }
                    _ => {}
                }
            }
            Say::Changed { .. } if self.part == Part::Waiting => {
                scene.detect();
                self.put("acquire", When::Missing, scene);
            }
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "renew" => self.renew(scene),
            "answer" if self.part == Part::Leader => self.renew(scene),
            "again" | "answer" => self.put("poll", When::Missing, scene),
            _ => {}
        }
    }

    /// Its storage is the store: it reads there first, and writes nothing elsewhere.
    fn may_write(&mut self, scene: &mut Scene<'_, Say>) -> bool {
        self.began = (scene.tenure(), self.token);
        let what = Ask::Get { key: DATA, watch: false };
        self.desk.ask_once(scene.named(STORE), "read", what, scene);
        false
    }

    fn view(&self) -> View {
        View::new(self.part).leader(self.leader).token(self.token)
    }
}

fn cast(setup: &Setup, guarded: bool) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Open);
    stage.work_interval = WORK;
    for _ in 0..setup.contenders {
        stage.contender(Worker { guarded, ..Worker::default() });
    }
    stage.server(
        STORE,
        Store::new(Rules { judges: Some((KEY, LEASE_HELD_TEXT)), ..Rules::default() }),
    );
    Box::new(stage)
}
