//! A lock that some hold at a time.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{Held, wait, wait_not};
use crate::backend::{Join, Mode};
use crate::{AcquireError, BadName, LineName, Session};

/// A lock that as many hold at a time as there are permits. Everybody must say the same number; who
/// says another than those before is refused.
///
/// A session has one permit at a time. Tokens grow for each permit where the engine numbers them
/// ([`Held::slot`]), and otherwise only from one holder to the next that takes its place.
#[derive(Clone, Debug)]
pub struct Semaphore {
    session: Session,
    name: LineName,
    permits: NonZeroU32,
}

impl Semaphore {
    /// The semaphore of this name.
    ///
    /// # Errors
    /// [`BadName`], for what cannot be one.
    pub fn new(
        session: &Session,
        name: impl TryInto<LineName, Error: Into<BadName>>,
        permits: NonZeroU32,
    ) -> Result<Semaphore, BadName> {
        Ok(Semaphore { session: session.clone(), name: LineName::read(name)?, permits })
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn acquire(&self) -> Result<Held, AcquireError> {
        wait(&self.session, self.join(), None).await
    }

    /// Waits for a permit, but no longer than that.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<Held, AcquireError> {
        wait(&self.session, self.join(), Some(limit)).await
    }

    /// A permit now, or none at all.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn try_acquire(&self) -> Result<Held, AcquireError> {
        wait_not(&self.session, self.join()).await
    }

    fn join(&self) -> Join {
        Join::one(self.name.clone(), Mode::Permit { of: self.permits.get() })
    }
}
