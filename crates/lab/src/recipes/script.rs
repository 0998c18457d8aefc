//! What programs do with the recipes, and what they believe meanwhile.

mod programs;

use std::{
    num::NonZeroU32,
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenure::{
    AcquireError, Doubt, Election, Engine, FencingToken, Held, LeaderElector, Leadership, Lock,
    Loss, MultiLock, Observer, RwLock, Semaphore, Session, SessionOptions,
    backend::{Boxed, Drain, Mode},
    clock::Moment,
    elector::ElectorConfig,
    host::Host,
};
use tenure_api::{
    Compare, CompareResult, CompareTarget, LeaseId, Op, Put, Revision, Span, Txn, op::PutLease,
};
use tenure_replica::{canary, command::Command, election::key_of};
use tokio::sync::watch;

pub use self::programs::{LockKind, RANKED, candidate, elector, locker, observer};
use super::{
    channel::Connector,
    network::ProgramId,
    trace_events::{self, RecordedEvent, TracedBelief},
};
use crate::{
    engine::{Dice, TraceEvent, ms},
    invariants::{
        one_holder::{Belief, OneHolder},
        one_writer::GUARDED,
        tenures_seen::TenuresSeen,
    },
};

/// The script of a program.
pub type ProgramScript = Box<dyn Fn(ScriptContext) -> Boxed<'static, ()>>;

/// What all programs record for the invariants.
#[derive(Clone, Default)]
pub struct SharedRecord(Arc<Mutex<BeliefRecord>>);

#[derive(Default)]
pub struct BeliefRecord {
    pub holders: OneHolder,
    pub seen: TenuresSeen,
    pub counts: Vec<&'static str>,
    /// Whether the trace is read.
    pub is_read: bool,
    pub told: Vec<RecordedEvent>,
}

impl BeliefRecord {
    fn tell(&mut self, event: impl FnOnce() -> RecordedEvent) {
        if self.is_read {
            self.told.push(event());
        }
    }

    /// A program believes from now on, and the invariants hold it to that.
    fn believes(&mut self, belief: Belief) -> u64 {
        let told = self.is_read.then(|| TracedBelief::from(&belief));
        let number = self.holders.believes(belief);
        self.told.extend(told.map(|told| RecordedEvent::Believes(number, told)));
        number
    }

    fn stops(&mut self, number: u64) {
        if let Some(belief) = self.holders.stops(number) {
            self.tell(|| RecordedEvent::Stops(number, TracedBelief::from(&belief)));
        }
    }
}

impl SharedRecord {
    pub fn open(&self) -> MutexGuard<'_, BeliefRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a script works with.
#[derive(Clone)]
pub struct ScriptContext {
    pub program: ProgramId,
    pub identity: String,
    pub host: Arc<dyn Host>,
    pub engine: Engine,
    pub connector: Connector,
    pub record: SharedRecord,
    pub rest: watch::Receiver<bool>,
}

/// A leadership or a lock.
enum Guard {
    Led(Leadership),
    Held(Held),
}

impl Guard {
    fn may_act(&self) -> Result<FencingToken, Doubt> {
        match self {
            Guard::Led(led) => led.may_act(Duration::ZERO),
            Guard::Held(held) => held.may_act(Duration::ZERO),
        }
    }

    fn deadline(&self) -> Moment {
        match self {
            Guard::Led(led) => led.deadline(),
            Guard::Held(held) => held.deadline(),
        }
    }

    async fn drain(&self) -> Drain {
        match self {
            Guard::Led(led) => led.drain().await,
            Guard::Held(held) => held.drain().await,
        }
    }

    async fn lost(&self) -> Loss {
        match self {
            Guard::Led(led) => led.lost().await,
            Guard::Held(held) => held.lost().await,
        }
    }

    /// Every name that is held, with its token, and the permit.
    fn tokens(&self) -> Vec<(String, FencingToken, Option<u32>)> {
        match self {
            Guard::Led(led) => vec![(led.name().to_string(), led.token(), None)],
            Guard::Held(held) => {
                let slot = held.slot();
                held.tokens().map(|(name, token)| (name.to_string(), token, slot)).collect()
            }
        }
    }

    async fn release(self) {
        let _ = match self {
            Guard::Led(led) => led.resign().await,
            Guard::Held(held) => held.release().await,
        };
    }
}

/// The program believes until this is dropped.
struct BeliefGuard {
    record: SharedRecord,
    beliefs: Vec<u64>,
}

impl Drop for BeliefGuard {
    fn drop(&mut self) {
        let mut record = self.record.open();
        for belief in &self.beliefs {
            record.stops(*belief);
        }
    }
}

impl ScriptContext {
    fn count(&self, what: &'static str) {
        self.record.open().counts.push(what);
    }

    fn tell(&self, event: impl FnOnce() -> TraceEvent) {
        let who = self.program;
        self.record.open().tell(|| RecordedEvent::Said(event().of(format!("p{who}"))));
    }

    fn log(&self, line: impl FnOnce() -> String) {
        self.tell(|| TraceEvent::new("say", line()));
    }

    fn resting(&self) -> bool {
        *self.rest.borrow()
    }

    async fn told_to_rest(&self) {
        let _ = self.rest.clone().wait_for(|rest| *rest).await;
    }

    async fn pause(&self, dice: &mut Dice, low: u64, high: u64) {
        self.host.pause(dice.duration(ms(low), ms(high))).await;
    }

    /// Opens a session, and tries again until it is open.
    async fn session(&self, ttl: Duration, swift: bool) -> Option<Session> {
        while !self.resting() {
            let mut options = SessionOptions::new(ttl);
            options.identity.clone_from(&self.identity);
            options.fast_release = swift;
            options.host = Some(Arc::clone(&self.host));
            match Session::open_with(&self.engine, options).await {
                Ok(session) => {
                    self.tell(|| {
                        let id = session.id();
                        TraceEvent::new("session", format!("has session {id}"))
                            .with("session", id.0)
                            .with("ttl", ttl.as_micros() as u64)
                    });
                    return Some(session);
                }
                Err(error) => {
                    self.log(|| format!("has no session: {error}"));
                    self.host.pause(ms(50)).await;
                }
            }
        }
        None
    }

    fn believe(
        &self,
        guard: &Arc<Guard>,
        mode: Mode,
        session: LeaseId,
        strict: bool,
    ) -> BeliefGuard {
        let mut beliefs = vec![];
        for (name, token, slot) in guard.tokens() {
            let guard = Arc::downgrade(guard);
            let stubborn = canary!(StubbornHolders);
            let until = move || guard.upgrade().filter(|_| !stubborn).map(|guard| guard.deadline());
            let (program, session, until) = (self.program, Some(session), Box::new(until));
            let belief = Belief { program, name, mode, token, slot, session, strict, until };
            beliefs.push(self.record.open().believes(belief));
        }
        BeliefGuard { record: self.record.clone(), beliefs }
    }

    /// A write that is taken only while the candidacy of its token exists.
    async fn write(&self, name: &str, session: LeaseId, token: FencingToken) {
        let leads = Compare {
            span: Span::One(key_of(name.as_bytes(), session)),
            result: CompareResult::Equal,
            target: CompareTarget::Create(Revision(token.get())),
        };
        let put = Put {
            key: format!("{GUARDED}{name}").into(),
            value: Some(token.get().to_string().into()),
            lease: PutLease::Set(None),
            prev_kv: false,
        };
        let compare = if canary!(UnguardedWrites) { vec![] } else { vec![leads] };
        let txn = Txn { compare, success: vec![Op::Put(put)], failure: vec![] };
        let channel = self.connector.channel(self.connector.members.clone(), ms(300));
        match channel.write(Command::Txn(txn)).await {
            Ok(true) => self.count("guarded_write"),
            Ok(false) => self.count("stale_write_refused"),
            Err(_) => self.count("write_unknown"),
        }
    }

    /// Holds a lock or leadership for a while, acts under its token, and releases or loses it.
    async fn hold(
        &self,
        guard: Guard,
        mode: Mode,
        session: &Session,
        strict: bool,
        dice: &mut Dice,
    ) {
        let guard = Arc::new(guard);
        let believing = self.believe(&guard, mode, session.id(), strict);
        let ruled = guard.tokens()[0].0 == RANKED;
        let until = self.host.now() + dice.duration(ms(10), ms(900));
        while self.host.now() < until && !self.resting() {
            let step = dice.duration(ms(5), ms(150));
            tokio::select! {
                biased;
                loss = guard.lost() => {
                    self.count("lost");
                    self.log(|| format!("loses {:?}: {loss}", guard.tokens()));
                    if canary!(StubbornHolders) {
                        self.host.pause(ms(1500)).await;
                    }
                    return drop(believing);
                }
                _ = guard.drain() => {
                    self.count("drained");
                    break;
                }
                () = self.told_to_rest() => {}
                () = self.host.pause(step) => {
                    let Ok(token) = guard.may_act() else { continue };
                    match &*guard {
                        Guard::Led(led) if ruled && dice.chance(40) => {
                            // A program that reports itself unhealthy has stopped before.
                            drop(believing);
                            self.count("unhealthy");
                            let _ = session.report_health(led.name(), false).await;
                            return;
                        }
                        Guard::Led(led) if dice.chance(200) => {
                            let _ = led.proclaim(format!("{}:{token}", self.identity)).await;
                        }
                        _ if mode == Mode::Exclusive => {
                            let name = guard.tokens().swap_remove(0).0;
                            self.write(&name, session.id(), token).await;
                        }
                        _ => {}
                    }
                }
            }
        }
        // A program that releases has stopped before.
        drop(believing);
        self.log(|| format!("gives up {:?}", guard.tokens()));
        let guard = Arc::into_inner(guard).expect("the guard has one owner");
        if dice.chance(800) {
            self.count("released");
            guard.release().await;
        } else {
            self.count("dropped");
            drop(guard);
        }
    }

    /// Ends the session, one way or the other.
    async fn leave(&self, session: Session, dice: &mut Dice) {
        if dice.chance(700) {
            session.close().await;
            self.count("closed");
        }
    }

    /// The outcome of waiting; none if the program withdraws before.
    async fn unless_withdrawn<T>(
        &self,
        limit: Duration,
        waits: impl Future<Output = T>,
    ) -> Option<T> {
        let impatient = self.host.seed().is_multiple_of(4);
        tokio::select! {
            biased;
            () = self.host.pause(limit), if impatient => {
                self.count("withdrawn");
                None
            }
            done = waits => Some(done),
        }
    }

    /// Handles a failed acquire. Returns whether to go on with this session.
    async fn not_won(&self, error: AcquireError, dice: &mut Dice) -> bool {
        self.log(|| format!("does not get it: {error}"));
        match error {
            AcquireError::Taken { .. } | AcquireError::TimedOut { .. } => {
                self.count("not_waited");
                self.pause(dice, 5, 100).await;
                true
            }
            // An operator or a candidate of higher priority took the candidacy away: the session goes on.
            AcquireError::CandidacyLost { loss, .. } => {
                assert!(loss != Loss::Resigned, "{} gave up nothing", self.identity);
                self.count("place_lost");
                self.pause(dice, 5, 100).await;
                true
            }
            AcquireError::SessionOver { .. } => {
                self.count("session_over");
                false
            }
            AcquireError::Frozen { .. } => {
                self.count("frozen");
                self.pause(dice, 20, 200).await;
                true
            }
            // A candidacy that was given up a moment ago may still be on its way out.
            other => panic!("{} is refused what must be granted: {other}", self.identity),
        }
    }
}
