//! Singleton: no election at all. One process leads, because there is no other.
//!
//! A supervisor beside it hears when it ends and starts it again after a while. Two can never lead; in
//! return everybody waits whenever it is away, and what the supervisor does not see, nobody mends. It
//! is what every election has to be better than.

use std::{fmt, time::Duration};

use super::{Algorithm, Scenario, Setup};
use crate::stage::{Gate, NodeId, Part, Play, Program, Promise, Scene, Stage, View, Word};

/// The supervisor waits so long before it starts a process again, lest one that fails at once be started
/// all the time.
const RESTART: Duration = Duration::from_secs(5);
/// Nobody leads for so long after a crash, at most.
const AWAY_MAX: Promise = Promise::VacantAtMost(Duration::from_millis(5100));

pub(super) const SINGLETON: Algorithm = Algorithm {
    name: "singleton",
    about: "one process leads, and a supervisor starts it again when it has died",
    origin: "every service before its second instance",
    promises: &[Promise::OneBeliever, Promise::OneWriter, Promise::SomebodyLeads, AWAY_MAX],
    contenders: 1,
    patience: Some(Duration::from_secs(6)),
    cast,
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "singleton-crash",
        algorithm: &SINGLETON,
        about: "The process dies and is started again after five seconds, in which nobody leads.",
        lasts: Duration::from_secs(60),
        script: "at 20s crash a\n",
        breaks: &[],
    },
    Scenario {
        name: "singleton-hang",
        algorithm: &SINGLETON,
        about: "The process stands still, as in a long collection of garbage. To the supervisor it is alive: nobody leads until it goes on by itself.",
        lasts: Duration::from_secs(60),
        script: "at 20s pause a for 30s\n",
        breaks: &[AWAY_MAX],
    },
    Scenario {
        name: "singleton-machine",
        algorithm: &SINGLETON,
        about: "The whole machine dies, the supervisor with it. There is nobody left to start anything.",
        lasts: Duration::from_secs(60),
        script: "at 20s crash supervisor\nat 20s crash a\n",
        breaks: &[Promise::SomebodyLeads, AWAY_MAX],
    },
];

/// Nothing is ever said.
#[derive(Clone, Debug)]
enum Silence {}

impl fmt::Display for Silence {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl Word for Silence {
    fn kind(&self) -> &'static str {
        match *self {}
    }
}

#[derive(Debug)]
struct Only {
    me: Option<NodeId>,
}

impl Program<Silence> for Only {
    fn start(&mut self, scene: &mut Scene<'_, Silence>) {
        self.me = Some(scene.me);
        scene.lead(None);
    }

    fn receive(&mut self, _: NodeId, word: Silence, _: &mut Scene<'_, Silence>) {
        match word {}
    }

    fn view(&self) -> View {
        View::new(Part::Leader).leader(self.me)
    }
}

#[derive(Debug)]
struct Supervisor;

impl Program<Silence> for Supervisor {
    fn start(&mut self, _: &mut Scene<'_, Silence>) {}

    fn receive(&mut self, _: NodeId, word: Silence, _: &mut Scene<'_, Silence>) {
        match word {}
    }

    fn closed(&mut self, by: NodeId, scene: &mut Scene<'_, Silence>) {
        scene.say(format!("sees that {} has ended", scene.name(by)));
        scene.detect();
        scene.alarm("restart", RESTART);
    }

    fn ring(&mut self, _: &'static str, scene: &mut Scene<'_, Silence>) {
        let process = scene.named("a");
        scene.restart(process);
    }

    fn view(&self) -> View {
        View::new(Part::Server)
    }
}

/// However many are asked for, there is one.
fn cast(setup: &Setup) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Open);
    stage.connections = true;
    stage.contender(Only { me: None });
    stage.server("supervisor", Supervisor);
    Box::new(stage)
}
