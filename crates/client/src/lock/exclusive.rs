//! A lock with one holder.

use std::time::Duration;

use super::wait_not;
use crate::backend::{JoinSpec, Mode};
use crate::{AcquireError, BadName, ElectionName, Held, Session};

/// A lock with one holder at a time. etcd's own clients see it as one of theirs.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
/// # let engine = tenure::Engine::tenure(&endpoints)?;
/// # let session = tenure::Session::open(&engine, std::time::Duration::from_secs(10)).await?;
/// use tenure::Lock;
///
/// let held = Lock::new(&session, "reports/2026")?.lock().await?;
/// println!("writing under token {}", held.token());
/// held.release().await?;
/// # Ok(())
/// # }) }
/// ```
#[derive(Clone, Debug)]
pub struct Lock {
    session: Session,
    name: ElectionName,
}

impl Lock {
    /// The lock of this name.
    ///
    /// # Errors
    /// [`BadName`], for what cannot be one.
    pub fn new(
        session: &Session,
        name: impl TryInto<ElectionName, Error: Into<BadName>>,
    ) -> Result<Lock, BadName> {
        Ok(Lock { session: session.clone(), name: ElectionName::read(name)? })
    }

    /// Waits until it is held. If this future is dropped before that, the candidacy is left.
    ///
    /// # Errors
    /// See [`AcquireError`]. When the session ends, at once.
    pub async fn lock(&self) -> Result<Held, AcquireError> {
        self.session.join(self.join(), None).await
    }

    /// Waits until it is held, but no longer than that.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`], or as [`Lock::lock`].
    pub async fn lock_within(&self, limit: Duration) -> Result<Held, AcquireError> {
        self.session.join(self.join(), Some(limit)).await
    }

    /// Holds it now, or not at all.
    ///
    /// # Errors
    /// [`AcquireError::Taken`], or as [`Lock::lock`].
    pub async fn try_lock(&self) -> Result<Held, AcquireError> {
        wait_not(&self.session, self.join()).await
    }

    fn join(&self) -> JoinSpec {
        JoinSpec::one(self.name.clone(), Mode::Exclusive)
    }
}
