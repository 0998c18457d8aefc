//! A process of some application: it runs a script, is stopped, killed and started again.

use std::sync::Arc;

use tenure::{Engine, backend::Native, clock, host::Host};
use tenure_replica::Moment;
use tokio::sync::watch;

use super::{
    post::{Post, ProgramId},
    script::{Notebook, Script, Stage},
    wire::Phone,
};
use crate::{
    cluster::{Canary, member::Number},
    engine::{Clock, Executor, ms},
};

/// How long a program waits for what it asks outside of a session.
const REQUEST_TIMEOUT: std::time::Duration = ms(1000);

pub struct Program {
    id: ProgramId,
    script: Script,
    /// The machine's. It goes on while the process stands still, or is none.
    clock: Clock,
    /// Absent while there is no process.
    pub executor: Option<Executor>,
    /// Until when it stands still.
    pub paused_until: Option<Moment>,
    pub restarts_at: Option<Moment>,
    pub lives: u64,
}

impl Program {
    pub fn new(id: ProgramId, script: Script, clock: Clock) -> Program {
        let (executor, paused_until, restarts_at) = (None, None, None);
        Program { id, script, clock, executor, paused_until, restarts_at, lives: 0 }
    }

    /// A new process begins its script.
    pub fn start(
        &mut self,
        seed: u64,
        members: Vec<Number>,
        post: &Post,
        notes: &Notebook,
        rest: &watch::Sender<bool>,
        canary: Option<Canary>,
    ) {
        self.lives += 1;
        self.restarts_at = None;
        let executor = Executor::new(seed);
        let phone =
            Phone { program: self.id, members, executor: executor.clone(), post: post.clone() };
        let host: Arc<dyn Host> = executor.host();
        let stage = Stage {
            program: self.id,
            identity: format!("p{}/{}", self.id, self.lives),
            host: Arc::clone(&host),
            engine: Engine::new(Native::over(phone.clone(), REQUEST_TIMEOUT)),
            phone,
            notes: notes.clone(),
            rest: rest.subscribe(),
            canary,
        };
        host.spawn((self.script)(stage));
        self.executor = Some(executor);
    }

    /// The process ends where it stands.
    pub fn kill(&mut self) -> bool {
        self.paused_until = None;
        let Some(executor) = self.executor.take() else { return false };
        executor.kill();
        true
    }

    /// What its clock says.
    pub fn local(&self, now: Moment) -> clock::Moment {
        clock::Moment::after_start(self.clock.monotonic(now).since_start())
    }

    /// When its clock says so, or said so.
    pub fn global(&self, local: clock::Moment) -> Moment {
        self.clock.moment(Moment::after_start(local.since_start()))
    }

    /// Its process, if there is one that does not stand still.
    pub fn awake(&self) -> Option<&Executor> {
        self.executor.as_ref().filter(|_| self.paused_until.is_none())
    }

    /// When it has something to do by itself.
    pub fn due(&self, now: Moment) -> Option<Moment> {
        let timer = self.awake().and_then(Executor::next_timer);
        let timer = timer.map(|timer| self.global(timer).max(now));
        [timer, self.paused_until, self.restarts_at].into_iter().flatten().min()
    }
}
