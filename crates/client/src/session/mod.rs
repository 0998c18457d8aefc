//! A process's presence: everything it holds and waits for hangs on a session.
//!
//! A [`Session`] is kept by an operating system thread of its own, with a small runtime of its own:
//! renewals, the deadline, and all requests to the server run there. So a program with a blocked
//! runtime still renews; and when the session has ended, a clock says so, not a task that did not get to run. Asking
//! ([`Session::may_act`]) reads the clock itself and needs no task. Only a simulator hands in something else to run on
//! ([`crate::host`]).

mod acquire;
mod core;
mod held;
mod keeper;
mod options;
mod secret;

use std::sync::Arc;
use std::time::Duration;

pub use self::core::SessionState;
pub(crate) use self::core::{Core, Owner};
pub(crate) use acquire::acquire;
pub use held::Held;
pub(crate) use held::Watched;
pub use options::SessionOptions;
pub(crate) use options::default_identity;
pub use secret::SessionSecret;
use tenure_api::LeaseId;

use crate::backend::JoinSpec;
use crate::clock::Moment;
use crate::{AcquireError, Doubt, ElectionName, Engine, EngineError, Loss, SessionError};

/// A session. Clones are the same one; it ends when the last clone, and everything that was taken
/// with it, is gone.
///
/// One is enough for a process: it serves any number of names, each of them once. It has a thread, so
/// the program needs no runtime of its own.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
/// use std::time::Duration;
/// use tenure::{Engine, Session};
///
/// let engine = Engine::tenure(&endpoints)?;
/// let session = Session::open(&engine, Duration::from_secs(10)).await?;
/// println!("session {}", session.id());
/// session.close().await;
/// # Ok(())
/// # }) }
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    owner: Arc<Owner>,
}

impl Session {
    /// Opens a session that lives for `ttl` without a sign of life from this process.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn open(engine: &Engine, ttl: Duration) -> Result<Session, SessionError> {
        Session::open_with(engine, SessionOptions::new(ttl)).await
    }

    /// Opens a session with these settings.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn open_with(
        engine: &Engine,
        options: SessionOptions,
    ) -> Result<Session, SessionError> {
        options.validate()?;
        let owner = keeper::start(engine.clone(), options).await?;
        Ok(Session { owner })
    }

    /// Its id. On etcd, that of its lease.
    pub fn id(&self) -> LeaseId {
        self.core().id()
    }

    /// What lets another process of this program say that all its work has ended. Whatever knows it can also take the
    /// session over.
    pub fn secret(&self) -> SessionSecret {
        self.core().secret()
    }

    /// How long it lives without a sign of life, as the server granted it.
    pub fn ttl(&self) -> Duration {
        self.core().ttl()
    }

    /// The engine it lives on.
    pub fn engine(&self) -> &Engine {
        self.core().engine()
    }

    /// Becomes a candidate for whatever a [`JoinSpec`] can say, for no longer than `limit` if there is one.
    /// [`Election`](crate::Election) and the locks are shorter ways for the usual cases.
    ///
    /// # Errors
    /// See [`AcquireError`]. When the session ends, at once.
    pub async fn join(
        &self,
        join: JoinSpec,
        limit: Option<Duration>,
    ) -> Result<Held, AcquireError> {
        acquire(self.owner(), join, limit).await
    }

    /// Reports whether this process is fit to lead an election that it is a candidate in; for engines that can. An
    /// unfit candidate is passed over until it is fit. A leader must have stopped its work before it reports that it is
    /// unfit: it loses the lead at once, and its candidacy with it. A process that campaigns again while it is unfit
    /// says so ([`Candidacy::unhealthy`](crate::Candidacy::unhealthy)), or it is elected like any other.
    ///
    /// # Errors
    /// If it is no candidate there, no member answers, or the engine cannot.
    pub async fn report_health(
        &self,
        name: &ElectionName,
        healthy: bool,
    ) -> Result<(), EngineError> {
        let (core, name) = (Arc::clone(self.core()), name.clone());
        let said = async move { core.session.report_health(&name, healthy).await };
        let over = || EngineError::Unavailable { text: "the session is over".to_owned() };
        self.core().host.start(said).await.unwrap_or_else(|_| Err(over()))
    }

    /// What may be believed of it now.
    pub fn state(&self) -> SessionState {
        self.core().refresh()
    }

    /// Waits until it is over, and says why. Never before that.
    pub async fn lost(&self) -> Loss {
        self.core().lost().await
    }

    /// Waits until its state is another one than `known`, and answers that.
    pub async fn changed(&self, known: SessionState) -> SessionState {
        self.core().changed(known).await
    }

    /// Whether something that takes so long may be begun now.
    ///
    /// # Errors
    /// The [`Doubt`], if not.
    pub fn may_act(&self, takes: Duration) -> Result<(), Doubt> {
        self.core().may_act(takes)
    }

    /// The last moment at which this process may act, as far as is known now.
    pub fn deadline(&self) -> Moment {
        self.core().deadline()
    }

    /// How long that is from now.
    pub fn remaining(&self) -> Duration {
        self.core().remaining()
    }

    /// How long ago the last acknowledged renewal was sent.
    pub fn unconfirmed_for(&self) -> Duration {
        self.core().unconfirmed_for()
    }

    /// How many renewals needed more than one attempt.
    pub fn slow_renewals(&self) -> u64 {
        self.core().slow_renewals()
    }

    /// Ends it: everything it holds is lost here, then free for others. Waits until the server has
    /// confirmed it, or cannot be reached for as long as the session lives; then it ends there by
    /// itself. To be called when all work has ended.
    pub async fn close(self) {
        self.owner.close().await;
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.owner.core()
    }

    pub(crate) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }
}
