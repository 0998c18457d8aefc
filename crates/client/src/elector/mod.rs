//! Work for one of many processes: done while it leads, and again when it leads again.
//!
//! [`LeaderElector`] has the names and defaults of client-go's, and differs where that one bites:
//!
//! - It campaigns again for ever; losing once does not leave the service without a leader.
//! - The work runs in a [`Scope`] that is cancelled when leadership is in doubt or lost. Leadership is given
//!   up only after the work has ended.
//! - Work that has not ended by the deadline is dropped; work that blocks its thread cannot be, and for it
//!   there are [`OnLost::Exit`] and [`OnLost::Abort`], carried out by the session's own thread.
//! - Nothing is called "stopped leading" that never led.

mod config;
mod guard;
mod health;
mod run;
mod scope;

use std::sync::{Arc, Mutex, PoisonError};

pub use config::{ConfigError, ElectorConfig, OnDoubt, OnLost};
pub use health::{Healthz, Metrics, Unhealthy};
pub use run::Ended;
pub use scope::{Cancelled, Scope};
use tokio::sync::watch;

use crate::backend::Tenure;
use crate::{Engine, FencingToken, Loss};

/// What an elector is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectorState {
    /// Waiting for its turn, or for a server.
    Standby,
    /// Leading, confirmed.
    Held(FencingToken),
    /// Leading, and not confirmed in time.
    Suspect(FencingToken),
    /// It led, and has lost it. The work may still be ending.
    Lost(Loss),
}

/// Runs work whenever this process leads. Clones are the same elector.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
/// use std::ops::ControlFlow;
/// use std::time::Duration;
/// use tenure::elector::{ElectorConfig, LeaderElector};
/// use tenure::Engine;
///
/// let engine = Engine::tenure(&endpoints)?;
/// let elector = LeaderElector::new(engine, ElectorConfig::new("reports")?)?;
/// elector
///     .run(|scope| async move {
///         while let Ok(token) = scope.may_act(Duration::from_secs(1)) {
///             // Up to a second of work, under `token`.
/// #           let _ = token;
/// #           return ControlFlow::Break(());
///         }
///         ControlFlow::Continue(())
///     })
///     .await;
/// # Ok(())
/// # }) }
/// ```
#[derive(Clone)]
pub struct LeaderElector {
    inner: Arc<Inner>,
}

type NewLeader = Box<dyn Fn(Option<&Tenure>) + Send + Sync>;
type StoppedLeading = Box<dyn Fn(FencingToken) + Send + Sync>;

struct Inner {
    engine: Engine,
    config: ElectorConfig,
    state: watch::Sender<ElectorState>,
    leader: Mutex<Option<Tenure>>,
    stop: watch::Sender<bool>,
    /// Whether this process says that it is fit to lead.
    well: watch::Sender<bool>,
    health: health::Shared,
    new_leader: Option<NewLeader>,
    stopped_leading: Option<StoppedLeading>,
}

impl LeaderElector {
    /// An elector that does nothing before it is run.
    ///
    /// # Errors
    /// [`ConfigError`] names every rule that is broken.
    pub fn new(engine: Engine, config: ElectorConfig) -> Result<LeaderElector, ConfigError> {
        config.validate()?;
        let inner = Inner {
            engine,
            config,
            state: watch::Sender::new(ElectorState::Standby),
            leader: Mutex::default(),
            stop: watch::Sender::new(false),
            well: watch::Sender::new(true),
            health: health::Shared::default(),
            new_leader: None,
            stopped_leading: None,
        };
        Ok(LeaderElector { inner: Arc::new(inner) })
    }

    /// Calls this whenever another leader is elected, the leader proclaims another value, or there is no leader: for a
    /// standby that keeps itself warm. Also for this elector's own tenures.
    ///
    /// # Panics
    /// If the elector was cloned before.
    #[must_use]
    pub fn on_new_leader(
        mut self,
        call: impl Fn(Option<&Tenure>) + Send + Sync + 'static,
    ) -> LeaderElector {
        self.unshared().new_leader = Some(Box::new(call));
        self
    }

    /// Calls this after a tenure, when the work has ended and before leadership is given up.
    ///
    /// # Panics
    /// If the elector was cloned before.
    #[must_use]
    pub fn on_stopped_leading(
        mut self,
        call: impl Fn(FencingToken) + Send + Sync + 'static,
    ) -> LeaderElector {
        self.unshared().stopped_leading = Some(Box::new(call));
        self
    }

    fn unshared(&mut self) -> &mut Inner {
        Arc::get_mut(&mut self.inner).expect("hooks are set before the elector is cloned")
    }

    /// Ends [`LeaderElector::run`]: the work is cancelled, and when it has ended, however long that takes, leadership
    /// is given up.
    pub fn stop(&self) {
        self.inner.stop.send_replace(true);
    }

    /// What it is doing.
    pub fn state(&self) -> ElectorState {
        *self.inner.state.borrow()
    }

    /// Waits until it is doing something else than `known`.
    pub async fn changed(&self, known: ElectorState) -> ElectorState {
        let mut states = self.inner.state.subscribe();
        let changed = states.wait_for(|state| *state != known).await;
        // The sender lives as long as `self`.
        changed.map_or(known, |state| *state)
    }

    /// Whether this process leads, and that is confirmed.
    pub fn is_leader(&self) -> bool {
        matches!(self.state(), ElectorState::Held(_))
    }

    /// The leader, as far as this process has seen.
    pub fn leader(&self) -> Option<Tenure> {
        self.inner.leader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports whether this process is fit to lead; it is taken to be until it says otherwise. If it is not, the work
    /// is cancelled ([`Cancelled::Unhealthy`]), leadership is given up when it has ended, and the candidate is passed
    /// over until it is fit again. Work that has not ended after [`ElectorConfig::step_down_grace`] is dealt with as
    /// [`ElectorConfig::on_lost`] says; with [`OnLost::Cancel`], work that blocks its thread keeps the leadership,
    /// because it may still be writing. On engines that cannot pass a candidate over it leaves the election, and
    /// becomes a candidate again when it is fit.
    pub fn report_health(&self, healthy: bool) {
        self.inner.well.send_replace(healthy);
    }

    /// For `/healthz`.
    pub fn healthz(&self) -> Healthz {
        Healthz::new(Arc::clone(&self.inner))
    }

    /// For `/metrics`.
    pub fn metrics(&self) -> Metrics {
        Metrics::read(&self.inner)
    }
}

impl std::fmt::Debug for LeaderElector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.inner.config.name;
        f.debug_struct("LeaderElector").field("name", name).field("state", &self.state()).finish()
    }
}
