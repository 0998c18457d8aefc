//! A lock for readers and writers.

use std::time::Duration;

use super::wait_not;
use crate::backend::{JoinSpec, Mode};
use crate::{AcquireError, BadName, ElectionName, Held, Session};

/// A lock that one writer holds alone, or any number of readers together. A reader that comes after a
/// waiting writer waits behind it, so writers are not starved.
///
/// A session is a candidate for a name once: it cannot read and write the same lock at the same time.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
/// # let engine = tenure::Engine::tenure(&endpoints)?;
/// # let session = tenure::Session::open(&engine, std::time::Duration::from_secs(10)).await?;
/// # let other_session = tenure::Session::open(&engine, std::time::Duration::from_secs(10)).await?;
/// use tenure::{AcquireError, RwLock};
///
/// let here = RwLock::new(&session, "catalogue")?;
/// let elsewhere = RwLock::new(&other_session, "catalogue")?; // in another process, say
///
/// let reads = here.read().await?;
/// let reads_too = elsewhere.read().await?;
/// reads.release().await?;
/// reads_too.release().await?;
///
/// let writes = here.write().await?;
/// let refused = elsewhere.try_read().await.unwrap_err();
/// assert!(matches!(refused, AcquireError::Taken { .. }));
/// writes.release().await?;
/// # Ok(())
/// # }) }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    session: Session,
    name: ElectionName,
}

impl RwLock {
    /// The lock of this name.
    ///
    /// # Errors
    /// [`BadName`], for what cannot be one.
    pub fn new(
        session: &Session,
        name: impl TryInto<ElectionName, Error: Into<BadName>>,
    ) -> Result<RwLock, BadName> {
        Ok(RwLock { session: session.clone(), name: ElectionName::read(name)? })
    }

    /// Waits until it may be read.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn read(&self) -> Result<Held, AcquireError> {
        self.session.join(self.join(Mode::Shared), None).await
    }

    /// Waits until it may be read, but no longer than that.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn read_within(&self, limit: Duration) -> Result<Held, AcquireError> {
        self.session.join(self.join(Mode::Shared), Some(limit)).await
    }

    /// Reads now, or not at all.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn try_read(&self) -> Result<Held, AcquireError> {
        wait_not(&self.session, self.join(Mode::Shared)).await
    }

    /// Waits until it may be written.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn write(&self) -> Result<Held, AcquireError> {
        self.session.join(self.join(Mode::Exclusive), None).await
    }

    /// Waits until it may be written, but no longer than that.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn write_within(&self, limit: Duration) -> Result<Held, AcquireError> {
        self.session.join(self.join(Mode::Exclusive), Some(limit)).await
    }

    /// Writes now, or not at all.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn try_write(&self) -> Result<Held, AcquireError> {
        wait_not(&self.session, self.join(Mode::Exclusive)).await
    }

    fn join(&self, mode: Mode) -> JoinSpec {
        JoinSpec::one(self.name.clone(), mode)
    }
}
