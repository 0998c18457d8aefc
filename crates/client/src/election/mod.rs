//! Elections: one process of many leads.
//!
//! An [`Election`] is a name that candidates contend for. A [`Candidacy`] is one attempt to lead; campaigning uses it
//! up and gives a [`Leadership`], which is lost sooner or later, and says so. To lead again is to be a candidate again.

mod leadership;
mod observer;

use std::time::Duration;

pub use leadership::Leadership;
pub use observer::Observer;

use crate::backend::{Candidate, JoinSpec, Mode};
use crate::session::{Session, acquire};
use crate::{AcquireError, BadName, ElectionName, ObserveError};

/// An election, seen from one session.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
/// # let engine = tenure::Engine::tenure(&endpoints)?;
/// # let session = tenure::Session::open(&engine, std::time::Duration::from_secs(10)).await?;
/// use std::time::Duration;
/// use tenure::Election;
///
/// let election = Election::new(&session, "backup")?;
/// let leadership = election.candidate("10.0.0.7:8080").campaign().await?;
/// for job in 1..=3 {
///     let token = leadership.may_act(Duration::from_secs(1))?;
///     println!("up to a second of work on job {job}, under {token}");
/// }
/// leadership.resign().await?;
/// # Ok(())
/// # }) }
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    session: Session,
    name: ElectionName,
}

impl Election {
    /// The election of this name.
    ///
    /// # Errors
    /// [`BadName`], for what cannot be one.
    pub fn new(
        session: &Session,
        name: impl TryInto<ElectionName, Error: Into<BadName>>,
    ) -> Result<Election, BadName> {
        Ok(Election { session: session.clone(), name: ElectionName::read(name)? })
    }

    /// Its name.
    pub fn name(&self) -> &ElectionName {
        &self.name
    }

    /// A candidacy with a `value` for others to read when it leads: its address, say.
    pub fn candidate(&self, value: impl Into<Vec<u8>>) -> Candidacy {
        let mut join = JoinSpec::one(self.name.clone(), Mode::Exclusive);
        join.value = value.into().into();
        Candidacy { session: self.session.clone(), join }
    }

    /// The leader and all waiting candidates, in order.
    ///
    /// # Errors
    /// If no member answers, or the session is over.
    pub async fn candidates(&self) -> Result<Vec<Candidate>, ObserveError> {
        let core = self.session.core();
        let (engine, name) = (core.engine().clone(), self.name.clone());
        let asked = core.host.start(async move { engine.candidates(name).await });
        asked.await.unwrap_or_else(|_| {
            let loss = core.loss().unwrap_or(crate::Loss::KeeperGone);
            Err(ObserveError::SessionOver { name: self.name.clone(), loss })
        })
    }

    /// Observes the leader, from now on.
    pub fn observe(&self) -> Observer {
        let core = self.session.core();
        Observer::start(&core.host, core.engine().clone(), self.name.clone())
    }
}

/// One attempt to lead. Campaigning uses it up:
///
/// ```compile_fail,E0382
/// # async fn run(candidacy: tenure::Candidacy) {
/// let first = candidacy.campaign().await;
/// let second = candidacy.campaign().await;
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a candidacy does nothing until it campaigns"]
pub struct Candidacy {
    session: Session,
    join: JoinSpec,
}

impl Candidacy {
    /// Is elected before candidates of lower priority, from 0 to 1000; for engines that can.
    pub fn priority(mut self, priority: u32) -> Candidacy {
        self.join.priority = priority;
        self
    }

    /// Takes over from a leader of lower priority; for engines that can.
    pub fn preempting(mut self) -> Candidacy {
        self.join.preempts = true;
        self
    }

    /// Becomes a candidate that is passed over until [`Session::report_health`] says that it is healthy; for engines
    /// that can.
    pub fn unhealthy(mut self) -> Candidacy {
        self.join.unhealthy = true;
        self
    }

    /// Leads only when the leader before has surely stopped; for engines that can tell.
    pub fn without_overlap(mut self) -> Candidacy {
        self.join.no_overlap = true;
        self
    }

    /// Metadata for people and programs that list candidates; for engines that keep it.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Candidacy {
        self.join.metadata.push((key.into(), value.into()));
        self
    }

    /// Waits until it leads. If this future is dropped before that, the candidacy is withdrawn.
    ///
    /// # Errors
    /// See [`AcquireError`]. When the session ends, at once.
    pub async fn campaign(self) -> Result<Leadership, AcquireError> {
        self.wait(None).await
    }

    /// Waits until it leads, but no longer than that.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`], or as [`Candidacy::campaign`].
    pub async fn campaign_within(self, limit: Duration) -> Result<Leadership, AcquireError> {
        self.wait(Some(limit)).await
    }

    /// Leads now, or withdraws.
    ///
    /// # Errors
    /// [`AcquireError::Taken`], or as [`Candidacy::campaign`].
    pub async fn try_campaign(mut self) -> Result<Leadership, AcquireError> {
        self.join.try_only = true;
        self.wait(None).await
    }

    async fn wait(self, limit: Option<Duration>) -> Result<Leadership, AcquireError> {
        acquire(self.session.owner(), self.join, limit).await.map(Leadership::new)
    }
}
