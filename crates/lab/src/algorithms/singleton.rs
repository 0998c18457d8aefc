//! Singleton: no election at all. One process leads, because there is no other.
//!
//! A supervisor notices when it ends and starts it again after a while. Two can never lead; in return all wait whenever it
//! is away, and a failure that the supervisor does not see lasts. Every election has to be better than this.

use std::{fmt, time::Duration};

use super::{Algorithm, Setup, Story};
use crate::stage::{
    Actor, AlgorithmRun, Context, ProcessId, ProcessRole, ProcessView, Promise, ProtocolMessage,
    Stage, StorageGate,
};

/// How long the supervisor waits before a restart, so that a process that fails at once is not started all the time.
const RESTART: Duration = Duration::from_secs(5);
/// The longest time without a leader after a crash.
const AWAY_MAX: Promise = Promise::VacantAtMost(Duration::from_millis(5100));

pub(super) const SINGLETON: Algorithm = Algorithm {
    name: "singleton",
    about: "one process leads, and a supervisor starts it again when it has died",
    origin: "every service before its second instance",
    promises: &[Promise::OneBeliever, Promise::OneWriter, Promise::LeaderAtEnd, AWAY_MAX],
    contenders: 1,
    patience: Some(Duration::from_secs(6)),
    build,
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "singleton-crash",
        algorithm: &SINGLETON,
        about: "The process dies and is started again after five seconds, without a leader.",
        lasts: Duration::from_secs(60),
        script: "at 20s crash a\n",
        breaks: &[],
    },
    Story {
        name: "singleton-hang",
        algorithm: &SINGLETON,
        about: "The process is paused, as in a long garbage collection. To the supervisor it is alive: there is no leader until it resumes by itself.",
        lasts: Duration::from_secs(60),
        script: "at 20s pause a for 30s\n",
        breaks: &[AWAY_MAX],
    },
    Story {
        name: "singleton-machine",
        algorithm: &SINGLETON,
        about: "The whole machine dies, the supervisor with it. Nothing is left that could start it.",
        lasts: Duration::from_secs(60),
        script: "at 20s crash supervisor\nat 20s crash a\n",
        breaks: &[Promise::LeaderAtEnd, AWAY_MAX],
    },
];

/// There are no messages.
#[derive(Clone, Debug)]
enum Silence {}

impl fmt::Display for Silence {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl ProtocolMessage for Silence {
    fn kind(&self) -> &'static str {
        match *self {}
    }
}

#[derive(Debug)]
struct Only {
    me: Option<ProcessId>,
}

impl Actor<Silence> for Only {
    fn start(&mut self, context: &mut Context<'_, Silence>) {
        self.me = Some(context.me);
        context.lead(None);
    }

    fn receive(&mut self, _: ProcessId, message: Silence, _: &mut Context<'_, Silence>) {
        match message {}
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(ProcessRole::Leader).leader(self.me)
    }
}

#[derive(Debug)]
struct Supervisor;

impl Actor<Silence> for Supervisor {
    fn start(&mut self, _: &mut Context<'_, Silence>) {}

    fn receive(&mut self, _: ProcessId, message: Silence, _: &mut Context<'_, Silence>) {
        match message {}
    }

    fn closed(&mut self, by: ProcessId, context: &mut Context<'_, Silence>) {
        context.say(format!("sees that {} has ended", context.name(by)));
        context.detect();
        context.alarm("restart", RESTART);
    }

    fn ring(&mut self, _: &'static str, context: &mut Context<'_, Silence>) {
        let process = context.named("a");
        context.restart(process);
    }

    fn view(&self) -> ProcessView {
        ProcessView::new(ProcessRole::Server)
    }
}

/// There is one contender, whatever the setup asks for.
fn build(setup: &Setup) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Open);
    stage.connections = true;
    stage.add_contender(Only { me: None });
    stage.add_server("supervisor", Supervisor);
    Box::new(stage)
}
