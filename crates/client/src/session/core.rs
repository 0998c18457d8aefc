//! What the keeper, the background tasks and the users of one session share.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_api::LeaseId;
use tokio::sync::watch;

use crate::backend::BackendSession;
use crate::clock::Moment;
use crate::host::Host;
use crate::{Doubt, Engine, Loss, SessionSecret, Standing, Tenancy};

/// What may be believed of a session, and why not if it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Confirmed.
    Held,
    /// Not confirmed in time, and not over yet: start nothing new.
    Suspect,
    /// Over, for good.
    Lost(Loss),
}

/// How far the end of a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Open,
    Closing,
    /// Nothing more happens to it.
    Closed,
}

/// One session.
pub(crate) struct Core {
    engine: Engine,
    pub(super) session: Arc<dyn BackendSession>,
    pub(crate) host: Arc<dyn Host>,
    belief: Mutex<Belief>,
    state: watch::Sender<SessionState>,
    /// Until when this process may act, as told last.
    until: watch::Sender<Moment>,
    pub(super) phase: watch::Sender<Phase>,
    slow_renewals: AtomicU64,
    /// The caller has said that all work has ended.
    pub(super) stopped: AtomicBool,
}

#[derive(Debug)]
struct Belief {
    tenancy: Tenancy,
    /// Why it is over, once that is known.
    loss: Option<Loss>,
}

impl Core {
    pub(super) fn new(
        engine: Engine,
        session: Arc<dyn BackendSession>,
        host: Arc<dyn Host>,
        tenancy: Tenancy,
    ) -> Core {
        Core {
            engine,
            session,
            host,
            belief: Mutex::new(Belief { tenancy, loss: None }),
            state: watch::Sender::new(SessionState::Held),
            until: watch::Sender::new(tenancy.safe_until()),
            phase: watch::Sender::new(Phase::Open),
            slow_renewals: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> LeaseId {
        self.session.id()
    }

    pub(crate) fn secret(&self) -> SessionSecret {
        self.session.secret()
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.session.ttl()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn slow_renewals(&self) -> u64 {
        self.slow_renewals.load(Ordering::Relaxed)
    }

    pub(super) fn count_slow_renewal(&self) {
        self.slow_renewals.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes the belief, if it is to be changed, and tells all watchers what is to be believed after. The clock is
    /// read under the lock: no watcher can be told of an earlier moment after a later one.
    pub(super) fn revise<T>(&self, change: impl FnOnce(&mut Tenancy, Moment) -> T) -> T {
        let mut belief = self.belief();
        let now = self.host.now();
        let result = change(&mut belief.tenancy, now);
        self.tell(&mut belief, now);
        result
    }

    /// What may be believed now.
    pub(crate) fn refresh(&self) -> SessionState {
        let mut belief = self.belief();
        let now = self.host.now();
        self.tell(&mut belief, now)
    }

    /// It is over. The first reason counts.
    pub(super) fn end(&self, loss: Loss) {
        let mut belief = self.belief();
        let now = self.host.now();
        if belief.tenancy.standing(now) != Standing::Lost {
            belief.loss = Some(loss);
            belief.tenancy.end();
        }
        self.tell(&mut belief, now);
    }

    fn tell(&self, belief: &mut Belief, now: Moment) -> SessionState {
        let state = match belief.tenancy.standing(now) {
            Standing::Held => SessionState::Held,
            Standing::Suspect => SessionState::Suspect,
            Standing::Lost => {
                let by_clock = if belief.tenancy.is_detached() {
                    Loss::ConnectionLost
                } else {
                    Loss::Unconfirmed
                };
                SessionState::Lost(*belief.loss.get_or_insert(by_clock))
            }
        };
        self.state.send_if_modified(|told| std::mem::replace(told, state) != state);
        let until = belief.tenancy.safe_until();
        self.until.send_if_modified(|told| std::mem::replace(told, until) != until);
        state
    }

    /// Why it is over, if it is.
    pub(crate) fn loss(&self) -> Option<Loss> {
        match self.refresh() {
            SessionState::Lost(loss) => Some(loss),
            SessionState::Held | SessionState::Suspect => None,
        }
    }

    /// Waits until it is over.
    pub(crate) async fn lost(&self) -> Loss {
        let mut states = self.state.subscribe();
        loop {
            if let Some(loss) = self.loss() {
                return loss;
            }
            // The sender lives as long as `self`.
            let _ = states.changed().await;
        }
    }

    pub(crate) async fn changed(&self, known: SessionState) -> SessionState {
        let mut states = self.state.subscribe();
        loop {
            let state = self.refresh();
            if state != known {
                return state;
            }
            let _ = states.changed().await;
        }
    }

    pub(crate) fn may_act(&self, takes: Duration) -> Result<(), Doubt> {
        self.revise(|tenancy, now| tenancy.may_act(now, takes))
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.belief().tenancy.safe_until()
    }

    /// Waits until the deadline is another one than `known`.
    pub(crate) async fn deadline_moved(&self, known: Moment) -> Moment {
        let mut until = self.until.subscribe();
        match until.wait_for(|until| *until != known).await {
            Ok(until) => *until,
            // The sender lives as long as `self`.
            Err(_) => std::future::pending().await,
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.deadline().since(self.host.now())
    }

    /// How long ago the last acknowledged renewal was sent.
    pub(crate) fn unconfirmed_for(&self) -> Duration {
        let confirmed = self.belief().tenancy.confirmed_at();
        self.host.now().since(confirmed)
    }

    pub(super) fn renew_at(&self) -> Moment {
        self.belief().tenancy.renew_at()
    }

    fn belief(&self) -> MutexGuard<'_, Belief> {
        self.belief.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = *self.state.borrow();
        f.debug_struct("Session").field("id", &self.id()).field("state", &state).finish()
    }
}

/// Keeps the session alive. When the last owner is gone, it is closed.
#[derive(Debug)]
pub(crate) struct Owner {
    core: Arc<Core>,
}

impl Owner {
    pub(super) fn new(core: Arc<Core>) -> Owner {
        Owner { core }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn ask_to_close(&self) {
        // All belief here ends before the server is asked to free things.
        self.core.end(Loss::Closed);
        self.core.phase.send_if_modified(|phase| {
            let open = *phase == Phase::Open;
            *phase = (*phase).max(Phase::Closing);
            open
        });
    }

    pub(super) async fn close(&self) {
        self.core.stopped.store(true, Ordering::Release);
        self.ask_to_close();
        let mut phase = self.core.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase == Phase::Closed).await;
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.ask_to_close();
    }
}
