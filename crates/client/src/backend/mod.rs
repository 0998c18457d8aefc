//! What an engine must be able to do for elections and locks.
//!
//! The recipes (`Election`, `Lock`, …) know only the three traits here. A [`Backend`] opens sessions and reads
//! elections; a [`BackendSession`] is one session on it; a [`BackendCandidate`] is one candidacy for one name, or for
//! several at once. There are two:
//!
//! - [`etcd`](Etcd): sequenced keys and watches, on a real etcd or on tenure, in the same elections as stock clients of
//!   either.
//! - [`native`](Native): tenure's own protocol, where the server decides and one stream carries
//!   everything.
//!
//! What is asked of every backend:
//!
//! 1. A candidacy is held only if the server said, at one revision, that its key lives
//!    and that no other candidate is before it.
//! 2. A waiting candidate is told at once when its own candidacy or session is gone.
//! 3. [`BackendCandidate::leave`] undoes whatever [`BackendCandidate::enter`] did, also if that was dropped half way or
//!    its outcome is unknown; and frees nothing else.
//! 4. Everything may be called again after a failure, and acts once.
//! 5. No call but [`BackendCandidate::turn`], [`BackendCandidate::gone`] and [`BackendSession::ended`] waits for more than
//!    the answer of a member.

mod etcd;
mod join;
mod native;
mod observe;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use etcd::Etcd;
pub use join::{Grant, HeldName, JoinSpec};
pub use native::{Attached, ElectionEvents, Heard, Native, Reach, Wire, stream_error};
pub use observe::{Candidate, Observation, Sight, Tenure};
use tenure_api::LeaseId;
pub use tenure_api::Mode;

use crate::clock::Moment;
use crate::grpc::Client;
use crate::host::Host;
use crate::{AcquireError, ElectionName, EngineError, Loss, ProclaimError, SessionSecret};

/// A future in a box: these traits are used behind `dyn`.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What kind of session to open.
#[derive(Clone, Debug)]
pub struct Opening {
    /// How long it lives without a sign of life.
    pub ttl: Duration,
    /// Identity, for people.
    pub identity: String,
    /// End the session as soon as the connection breaks, if the engine can.
    pub fast_release: bool,
    /// Tells when requests were sent, and runs what the session needs.
    pub host: Arc<dyn Host>,
}

/// A session that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The session.
    pub session: Arc<dyn BackendSession>,
    /// Not after the server began to count its time to live.
    pub sent: Moment,
}

/// An engine: a cluster that keeps sessions, elections and locks.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// What it is called in messages.
    fn name(&self) -> &'static str;

    /// Opens a session, on the host that the opening names.
    fn open(&self, opening: Opening) -> Boxed<'_, Result<Opened, EngineError>>;

    /// Begins to observe an election.
    fn observe(
        &self,
        host: Arc<dyn Host>,
        name: ElectionName,
    ) -> Boxed<'_, Result<Box<dyn Observation>, EngineError>>;

    /// A client of the keys that the engine keeps beside its elections, if it keeps any.
    fn client(&self) -> Option<Client> {
        None
    }

    /// The candidates of an election, in order.
    fn candidates(&self, name: ElectionName) -> Boxed<'_, Result<Vec<Candidate>, EngineError>>;
}

/// Why a renewal was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenewError {
    /// The server says that the session is over.
    Over(Loss),
    /// No answer from the member that was asked.
    Missed(EngineError),
}

/// What became of the connection that a session hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// There is one, or it does not matter.
    Attached,
    /// It broke, and the session ends at this moment unless there is another one before.
    Detached(Moment),
}

/// One session on an engine.
pub trait BackendSession: fmt::Debug + Send + Sync + 'static {
    /// Its id. On etcd, the lease.
    fn id(&self) -> LeaseId;

    /// What lets another process of the same program end it, saying that all work has ended. Empty where none is needed.
    fn secret(&self) -> SessionSecret {
        SessionSecret::default()
    }

    /// How long it lives without a renewal, as the server granted it.
    fn ttl(&self) -> Duration;

    /// Renews it once, by asking one member. After a miss, or when dropped before the answer, the
    /// next call asks another one.
    fn renew(&self) -> Boxed<'_, Result<(), RenewError>>;

    /// Is done when the server says, unasked, that the session is over.
    fn ended(&self) -> Boxed<'_, Loss>;

    /// Is done when the connection broke or is there again, if the session hangs on it.
    fn link(&self) -> Boxed<'_, Link> {
        Box::pin(std::future::pending())
    }

    /// Reserves a candidacy. Sends no request; see [`BackendCandidate::enter`].
    ///
    /// # Errors
    /// If this session is a candidate there already, or the engine has no such kind of lock.
    fn candidate(&self, join: JoinSpec) -> Result<Arc<dyn BackendCandidate>, AcquireError>;

    /// Reports whether this session is fit to lead an election that it is a candidate in: an unfit candidate is passed
    /// over, and an unfit leader steps down and becomes a candidate again, behind the others. For engines that can.
    ///
    /// # Errors
    /// If it is no candidate there, no member answers, or the engine cannot.
    fn report_health(
        &self,
        name: &ElectionName,
        healthy: bool,
    ) -> Boxed<'_, Result<(), EngineError>> {
        let text =
            format!("this engine passes nobody over, healthy ({healthy}) or not, for {name}");
        Box::pin(async { Err(EngineError::Refused { kind: None, text }) })
    }

    /// Ends the session; everything it holds is freed. `stopped`: all work is known to have ended.
    fn close(&self, stopped: bool) -> Boxed<'_, Result<(), EngineError>>;
}

/// One candidacy for a name, or for several at once; from reserving it to leaving it.
pub trait BackendCandidate: fmt::Debug + Send + Sync + 'static {
    /// Becomes a candidate. Returns the grant if it is held at once; [`BackendCandidate::turn`] waits for it otherwise.
    fn enter(&self) -> Boxed<'_, Result<Option<Grant>, AcquireError>>;

    /// Waits until it is held. May be dropped and called again.
    fn turn(&self) -> Boxed<'_, Result<Grant, AcquireError>>;

    /// Why it is gone, if that is already known; for callers that cannot wait.
    fn gone_already(&self) -> Option<Loss> {
        None
    }

    /// Waits until something that was held is not held any more.
    fn gone(&self) -> Boxed<'_, Loss>;

    /// Waits until the holder is asked to stop, because a successor was chosen.
    fn drain(&self) -> Boxed<'_, Drain> {
        Box::pin(std::future::pending())
    }

    /// Proclaims another value.
    fn proclaim(&self, value: Vec<u8>) -> Boxed<'_, Result<(), ProclaimError>>;

    /// From now on the session may become a candidate here again; its next candidacy waits until this one has been
    /// left. To be followed by [`BackendCandidate::leave`]. `stopped`: the work is known to have ended. The first call
    /// counts.
    fn forsake(&self, stopped: bool);

    /// Leaves, held or not. Done means that the server has confirmed it, or that there was nothing
    /// to leave.
    fn leave(&self) -> Boxed<'_, Result<(), EngineError>>;
}

/// A successor was chosen: stop the work, then resign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Its identity.
    pub successor: String,
    /// After this time it takes over anyway.
    pub within: Duration,
}
