//! A process of an application that runs a script, and is paused, killed and started again.

use std::sync::Arc;

use tenure::{Engine, backend::Native, clock, host::Host};
use tenure_replica::Moment;
use tokio::sync::watch;

use super::{
    channel::Connector,
    network::{ProgramId, ProgramNetwork},
    script::{ProgramScript, ScriptContext, SharedRecord},
};
use crate::{
    cluster::member::MemberNumber,
    engine::{Executor, SimClock, ms},
};

/// Timeout of requests outside of a session.
const REQUEST_TIMEOUT: std::time::Duration = ms(1000);

pub struct ClientProgram {
    id: ProgramId,
    script: ProgramScript,
    /// The machine's clock. It goes on while the process is paused or down.
    clock: SimClock,
    /// `None` while there is no process.
    pub executor: Option<Executor>,
    /// Until when the process is paused.
    pub paused_until: Option<Moment>,
    pub restarts_at: Option<Moment>,
    pub lives: u64,
}

impl ClientProgram {
    pub fn new(id: ProgramId, script: ProgramScript, clock: SimClock) -> ClientProgram {
        let (executor, paused_until, restarts_at) = (None, None, None);
        ClientProgram { id, script, clock, executor, paused_until, restarts_at, lives: 0 }
    }

    /// Starts a new process, which begins its script.
    pub fn start(
        &mut self,
        seed: u64,
        members: Vec<MemberNumber>,
        network: &ProgramNetwork,
        record: &SharedRecord,
        rest: &watch::Sender<bool>,
    ) {
        self.lives += 1;
        self.restarts_at = None;
        let executor = Executor::new(seed);
        let connector = Connector {
            program: self.id,
            members,
            executor: executor.clone(),
            network: network.clone(),
        };
        let host: Arc<dyn Host> = executor.host();
        let context = ScriptContext {
            program: self.id,
            identity: format!("p{}/{}", self.id, self.lives),
            host: Arc::clone(&host),
            engine: Engine::new(Native::over(connector.clone(), REQUEST_TIMEOUT)),
            connector,
            record: record.clone(),
            rest: rest.subscribe(),
        };
        host.spawn((self.script)(context));
        self.executor = Some(executor);
    }

    /// Kills the process.
    pub fn kill(&mut self) -> bool {
        self.paused_until = None;
        let Some(executor) = self.executor.take() else { return false };
        executor.kill();
        true
    }

    /// The reading of its clock.
    pub fn local(&self, now: Moment) -> clock::Moment {
        clock::Moment::after_start(self.clock.monotonic(now).since_start())
    }

    /// When its clock shows, or showed, `local`.
    pub fn global(&self, local: clock::Moment) -> Moment {
        self.clock.moment(Moment::after_start(local.since_start()))
    }

    /// Its process, if there is one that is not paused.
    pub fn awake(&self) -> Option<&Executor> {
        self.executor.as_ref().filter(|_| self.paused_until.is_none())
    }

    /// When it next has something to do.
    pub fn due(&self, now: Moment) -> Option<Moment> {
        let timer = self.awake().and_then(Executor::next_timer);
        let timer = timer.map(|timer| self.global(timer).max(now));
        [timer, self.paused_until, self.restarts_at].into_iter().flatten().min()
    }
}
