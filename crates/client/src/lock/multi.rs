//! Several locks at once.

use std::time::Duration;

use super::wait_not;
use crate::backend::{JoinSpec, Mode};
use crate::{AcquireError, BadName, ElectionName, Held, Session};

/// Several locks that are held all at once or not at all. However the names of two of them overlap, and in whatever
/// order they are written, they do not wait for each other for ever: each becomes a candidate for all its names at one
/// revision, so one of them is before the other everywhere.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
/// # let engine = tenure::Engine::tenure(&endpoints)?;
/// # let session = tenure::Session::open(&engine, std::time::Duration::from_secs(10)).await?;
/// # let other_session = tenure::Session::open(&engine, std::time::Duration::from_secs(10)).await?;
/// use tenure::{AcquireError, Lock, MultiLock};
///
/// let both = MultiLock::new(&session, ["account/7", "account/12"])?.lock().await?;
/// for (name, token) in both.tokens() {
///     println!("moving money in {name} under token {token}");
/// }
/// let refused = Lock::new(&other_session, "account/12")?.try_lock().await.unwrap_err();
/// assert!(matches!(refused, AcquireError::Taken { .. }));
/// both.release().await?;
/// # Ok(())
/// # }) }
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock {
    session: Session,
    names: Vec<ElectionName>,
}

impl MultiLock {
    /// The locks of these names; each once, however often it is written.
    ///
    /// # Errors
    /// [`BadName`], for what cannot be one, and if there is none.
    pub fn new<N: TryInto<ElectionName, Error: Into<BadName>>>(
        session: &Session,
        names: impl IntoIterator<Item = N>,
    ) -> Result<MultiLock, BadName> {
        let mut all: Vec<ElectionName> = Vec::new();
        for name in names {
            let name = ElectionName::read(name)?;
            if !all.contains(&name) {
                all.push(name);
            }
        }
        if all.is_empty() {
            return Err(BadName { name: String::new(), rule: "at least one name is needed" });
        }
        Ok(MultiLock { session: session.clone(), names: all })
    }

    /// Waits until all are held.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn lock(&self) -> Result<Held, AcquireError> {
        self.session.join(self.join(), None).await
    }

    /// Waits until all are held, but no longer than that.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn lock_within(&self, limit: Duration) -> Result<Held, AcquireError> {
        self.session.join(self.join(), Some(limit)).await
    }

    /// Holds all now, or none at all.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn try_lock(&self) -> Result<Held, AcquireError> {
        wait_not(&self.session, self.join()).await
    }

    fn join(&self) -> JoinSpec {
        let names = self.names.clone();
        JoinSpec { names, ..JoinSpec::one(self.names[0].clone(), Mode::Exclusive) }
    }
}
