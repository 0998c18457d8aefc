//! Kubernetes: a `Lease` object, and everybody's own stopwatch.
//!
//! The object says who leads; every renewal changes it. A candidate does not compare its times with any
//! clock: it notes when it last *saw the object change*, by its own monotonic clock, and takes the lease when
//! that was longer ago than the lease lasts. All writes are by resource version, so of two that try one
//! fails. The leader stops if it could not renew for the renew deadline, which is shorter.
//!
//! Clocks may be set as they like. What it trusts in is that all run about equally fast, and that all have
//! been told the same duration: a candidate judges by its own (kubernetes#47671). There is no token.

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

const KEY: &str = "lease";

/// What an elector is told.
#[derive(Debug)]
struct Durations {
    lease: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

/// Kubernetes: lease 15 s, renew deadline 10 s, retry 2 s.
const DEFAULT: Durations =
    Durations { lease: ms(15_000), renew_deadline: ms(10_000), retry: ms(2000) };
/// Somebody wanted it faster, on one machine.
const IMPATIENT: Durations =
    Durations { lease: ms(4000), renew_deadline: ms(3000), retry: ms(500) };
/// Who waits tries after retry × (1 + up to this, in tenths).
const JITTER_TENTHS: u32 = 12;

/// The object is seen to change up to 4.4 s late, and the end of the lease is noticed as late.
const NOTICED_WITHIN: Promise = Promise::VacantAtMost(ms(24_000));

pub(super) const KUBERNETES: Algorithm = Algorithm {
    name: "kubernetes",
    about: "a Lease object by compare-and-swap, judged by each observer's own stopwatch: 15, 10, 2 s",
    origin: "client-go leaderelection",
    promises: &[Promise::OneBeliever, Promise::OneWriter, NOTICED_WITHIN, Promise::SomebodyLeads],
    contenders: 3,
    patience: Some(ms(26_000)),
    cast: |setup| cast(setup, false),
};

pub(super) const KUBERNETES_MIXED: Algorithm = Algorithm {
    name: "kubernetes-mixed",
    about: "a Lease object, and the last candidate was told that leases last 4 s instead of 15",
    cast: |setup| cast(setup, true),
    ..KUBERNETES
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "kubernetes-crash",
        algorithm: &KUBERNETES,
        about: "The leader dies. Whoever has not seen its object change for 15 s takes it.",
        lasts: Duration::from_secs(90),
        script: "at 30s crash leader\n",
        breaks: &[],
    },
    Scenario {
        name: "kubernetes-skew",
        algorithm: &KUBERNETES,
        about: "Clocks are set an hour ahead and an hour back, and nobody cares; then the leader is cut off, stops by itself, and another leads.",
        lasts: Duration::from_secs(90),
        script: "at 10s clock a jumps -1h\nat 10s clock b jumps +1h\nat 30s cut a store for 40s\n",
        breaks: &[],
    },
    Scenario {
        name: "kubernetes-pause",
        algorithm: &KUBERNETES,
        about: "The leader stands still for 40 s, and writes when it goes on: nothing but a token would stop it.",
        lasts: Duration::from_secs(90),
        script: "at 30s pause leader for 40s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "kubernetes-mixed-durations",
        algorithm: &KUBERNETES_MIXED,
        about: "The leader cannot reach the server for 9 s, and may go on for 10. One candidate was told that leases last 4 s, and takes it.",
        lasts: Duration::from_secs(90),
        script: "at 30.5s cut a store for 9s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

#[derive(Debug)]
struct Elector {
    told: &'static Durations,
    line: Line,
    part: Part,
    leader: Option<NodeId>,
    /// The resource version last seen, and since when.
    version: u64,
    observed: Moment,
}

impl Elector {
    fn new(told: &'static Durations) -> Elector {
        Elector {
            told,
            line: Line::default(),
            part: Part::Idle,
            leader: None,
            version: 0,
            observed: Moment::ZERO,
        }
    }

    fn put(&mut self, purpose: &'static str, when: When, scene: &mut Scene<'_, Say>) {
        let (store, value) = (scene.named(STORE), scene.name(scene.me).to_owned());
        let what = Ask::Put { key: KEY, value, when, ttl: None, stamp: Some(scene.wall()) };
        self.line.ask_once(store, purpose, what, scene);
    }

    fn retry(&mut self, scene: &mut Scene<'_, Say>) {
        if self.part == Part::Leader {
            self.put("renew", When::Version(self.version), scene);
            scene.alarm("retry", self.told.retry);
        } else {
            let what = Ask::Get { key: KEY, watch: false };
            self.line.ask_once(scene.named(STORE), "poll", what, scene);
            let most = self.told.retry + self.told.retry * JITTER_TENTHS / 10;
            let again = scene.dice().duration(self.told.retry, most);
            scene.alarm("retry", again);
        }
    }

    fn found(&mut self, entry: Option<Entry>, scene: &mut Scene<'_, Say>) {
        let Some(entry) = entry else { return self.put("acquire", When::Missing, scene) };
        self.leader = Some(entry.writer);
        if entry.version != self.version {
            (self.version, self.observed) = (entry.version, scene.now());
        }
        let is_mine = entry.value == scene.name(scene.me);
        if is_mine || self.observed + self.told.lease < scene.now() {
            scene.detect();
            self.put("acquire", When::Version(entry.version), scene);
        }
    }

    fn written_down(&mut self, entry: &Entry, scene: &mut Scene<'_, Say>) {
        (self.version, self.observed) = (entry.version, scene.now());
        scene.alarm("deadline", self.told.renew_deadline);
        if self.part != Part::Leader {
            self.part = Part::Leader;
            self.leader = Some(scene.me);
            scene.lead(None);
            scene.alarm("retry", self.told.retry);
        }
    }
}

impl Program<Say> for Elector {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        *self = Elector::new(self.told);
        scene.alarm("retry", if scene.me == 0 { Duration::ZERO } else { ms(500) });
    }

    fn receive(&mut self, _from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        let Say::Answer { number, purpose, answer } = word else { return };
        if !self.line.hears(number, scene) {
            return;
        }
        match (purpose, answer) {
            ("poll", Answer::Found(entry)) => self.found(entry, scene),
            // A leader that finds somebody else's name goes on trying until its deadline, as client-go does.
            (_, Answer::Done { now: Some(entry), .. }) => self.written_down(&entry, scene),
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "retry" => self.retry(scene),
            "deadline" => {
                scene.say("could not renew before its deadline");
                scene.step_down();
                self.part = Part::Waiting;
                self.leader = None;
            }
            _ => {}
        }
    }

    fn stops_at(&self) -> Option<&'static str> {
        Some("deadline")
    }

    fn view(&self) -> View {
        View::new(self.part).leader(self.leader)
    }
}

fn cast(setup: &Setup, mixed: bool) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Open);
    for at in 1..=setup.contenders {
        let last = at == setup.contenders;
        stage.contender(Elector::new(if mixed && last { &IMPATIENT } else { &DEFAULT }));
    }
    stage.server(STORE, Store::new(Rules::default()));
    Box::new(stage)
}
