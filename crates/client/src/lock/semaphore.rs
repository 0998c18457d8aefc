//! A lock that some hold at a time.

use std::num::NonZeroU32;
use std::time::Duration;

use super::wait_not;
use crate::backend::{JoinSpec, Mode};
use crate::{AcquireError, BadName, ElectionName, Held, Session};

/// A lock with as many holders at a time as there are permits. All candidates must state the same number of permits;
/// one that states another than those before is refused.
///
/// A session has one permit at a time. Tokens grow for each permit where the engine numbers them
/// ([`Held::slot`]), and otherwise only from one holder to the next that takes its place.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
/// # let engine = tenure::Engine::tenure(&endpoints)?;
/// # let session = tenure::Session::open(&engine, std::time::Duration::from_secs(10)).await?;
/// # let other_session = tenure::Session::open(&engine, std::time::Duration::from_secs(10)).await?;
/// # let third_session = tenure::Session::open(&engine, std::time::Duration::from_secs(10)).await?;
/// use std::num::NonZeroU32;
/// use tenure::{AcquireError, Semaphore};
///
/// let two = NonZeroU32::new(2).unwrap();
/// let first = Semaphore::new(&session, "licences", two)?.acquire().await?;
/// let second = Semaphore::new(&other_session, "licences", two)?.acquire().await?;
/// assert_ne!(first.slot(), second.slot());
///
/// let third = Semaphore::new(&third_session, "licences", two)?;
/// let refused = third.try_acquire().await.unwrap_err();
/// assert!(matches!(refused, AcquireError::Taken { .. }));
/// first.release().await?;
/// let third = third.acquire().await?;
/// println!("permit {:?} under token {}", third.slot(), third.token());
/// # Ok(())
/// # }) }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    session: Session,
    name: ElectionName,
    permits: NonZeroU32,
}

impl Semaphore {
    /// The semaphore of this name.
    ///
    /// # Errors
    /// [`BadName`], for what cannot be one.
    pub fn new(
        session: &Session,
        name: impl TryInto<ElectionName, Error: Into<BadName>>,
        permits: NonZeroU32,
    ) -> Result<Semaphore, BadName> {
        Ok(Semaphore { session: session.clone(), name: ElectionName::read(name)?, permits })
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn acquire(&self) -> Result<Held, AcquireError> {
        self.session.join(self.join(), None).await
    }

    /// Waits for a permit, but no longer than that.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<Held, AcquireError> {
        self.session.join(self.join(), Some(limit)).await
    }

    /// A permit now, or none at all.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn try_acquire(&self) -> Result<Held, AcquireError> {
        wait_not(&self.session, self.join()).await
    }

    fn join(&self) -> JoinSpec {
        JoinSpec::one(self.name.clone(), Mode::Permit(self.permits.get()))
    }
}
