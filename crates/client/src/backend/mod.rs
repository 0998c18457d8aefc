//! What an engine must be able to do for elections and locks.
//!
//! The recipes (`Election`, `Lock`, …) know only the three traits here. A [`Backend`] opens sessions
//! and lets one look at lines; a [`BackendSession`] is one session on it; a [`Place`] is one place in
//! one line, or in several at once. There are two:
//!
//! - [`etcd`](Etcd): sequenced keys and watches, on a real etcd or on tenure, in line with stock
//!   clients of either.
//! - [`native`](Native): tenure's own protocol, where the server decides and one stream carries
//!   everything.
//!
//! What is asked of every backend:
//!
//! 1. A place is held only if it is the server's word, given at one revision, that its key lives
//!    and that nobody stands before it.
//! 2. Whoever waits is told at once when its own place or session is gone.
//! 3. [`Place::leave`] undoes whatever [`Place::enter`] did, also if that was dropped half way or
//!    its outcome is unknown; and frees nothing else.
//! 4. Everything may be called again after a failure, and acts once.
//! 5. No call but [`Place::turn`], [`Place::gone`] and [`BackendSession::ended`] waits for more than
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
pub use join::{Grant, HeldName, Join, Mode};
pub use native::{Attached, Heard, Native, Reach, Wire, stream_error};
pub use observe::{Candidate, Observation, Sight, Tenure};
use tenure_api::LeaseId;

use crate::clock::Moment;
use crate::host::Host;
use crate::{AcquireError, EngineError, LineName, Loss, ProclaimError};

/// A future in a box: these traits are used behind `dyn`.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What kind of session to open.
#[derive(Clone, Debug)]
pub struct Opening {
    /// How long it lives without a sign of life.
    pub ttl: Duration,
    /// Who this is, for people.
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

/// An engine: a cluster that keeps sessions and lines.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// What it is called in messages.
    fn name(&self) -> &'static str;

    /// Opens a session, on the host that the opening names.
    fn open(&self, opening: Opening) -> Boxed<'_, Result<Opened, EngineError>>;

    /// Begins to look at a line.
    fn observe(
        &self,
        host: Arc<dyn Host>,
        name: LineName,
    ) -> Boxed<'_, Result<Box<dyn Observation>, EngineError>>;

    /// Who stands in a line, in order.
    fn candidates(&self, name: LineName) -> Boxed<'_, Result<Vec<Candidate>, EngineError>>;
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

    /// Reserves a place in line. Asks nobody; see [`Place::enter`].
    ///
    /// # Errors
    /// If this session stands in that line already, or the engine has no such kind of lock.
    fn place(&self, join: Join) -> Result<Arc<dyn Place>, AcquireError>;

    /// Says whether this session is fit to lead a line that it stands in: who is not is passed over, and a
    /// leader that is not steps down and stands in line again, behind the others. For engines that can.
    ///
    /// # Errors
    /// If it does not stand in that line, nobody answers, or the engine cannot.
    fn report_health(&self, name: &LineName, healthy: bool) -> Boxed<'_, Result<(), EngineError>> {
        let text =
            format!("this engine passes nobody over, healthy ({healthy}) or not, for {name}");
        Box::pin(async { Err(EngineError::Refused { kind: None, text }) })
    }

    /// Ends the session; everything it holds is freed. `stopped`: all work is known to have ended.
    fn close(&self, stopped: bool) -> Boxed<'_, Result<(), EngineError>>;
}

/// One place in a line, or in several at once; from reserving it to leaving it.
pub trait Place: fmt::Debug + Send + Sync + 'static {
    /// Stands in line. Answers the grant if it is held at once; [`Place::turn`] waits for it otherwise.
    fn enter(&self) -> Boxed<'_, Result<Option<Grant>, AcquireError>>;

    /// Waits until it is held. May be dropped and called again.
    fn turn(&self) -> Boxed<'_, Result<Grant, AcquireError>>;

    /// Why it is gone, if that is known this very moment; for those who cannot wait to be told.
    fn gone_already(&self) -> Option<Loss> {
        None
    }

    /// Waits until something that was held is not held any more.
    fn gone(&self) -> Boxed<'_, Loss>;

    /// Waits until the holder is asked to stop, because a successor was chosen.
    fn drain(&self) -> Boxed<'_, Drain> {
        Box::pin(std::future::pending())
    }

    /// Tells others something else than what was told when entering.
    fn proclaim(&self, value: Vec<u8>) -> Boxed<'_, Result<(), ProclaimError>>;

    /// From now on the session may stand in this line again; its next place there waits until this
    /// one has been left. To be followed by [`Place::leave`]. `stopped`: the work is known to have
    /// ended. The first call counts.
    fn forsake(&self, stopped: bool);

    /// Leaves, held or not. Done means that the server has confirmed it, or that there was nothing
    /// to leave.
    fn leave(&self) -> Boxed<'_, Result<(), EngineError>>;
}

/// A successor was chosen: stop the work, then resign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Who it is.
    pub successor: String,
    /// After this time it takes over anyway.
    pub within: Duration,
}
