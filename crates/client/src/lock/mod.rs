//! Locks: one holder, some, or several names at once; and the guard that they give.
//!
//! | lock | holders |
//! |---|---|
//! | [`Lock`] | one |
//! | [`RwLock`] | one writer, or any number of readers |
//! | [`Semaphore`] | as many as there are permits |
//! | [`MultiLock`] | one, several names at once |
//!
//! All give the same guard, [`Held`]; all are fair: first come, first served. Each can be waited for, waited for with a
//! limit, or tried.

mod exclusive;
mod held;
mod multi;
mod rw;
mod semaphore;

use std::time::Duration;

pub use exclusive::Lock;
pub use held::Held;
pub use multi::MultiLock;
pub use rw::RwLock;
pub use semaphore::Semaphore;

use crate::AcquireError;
use crate::backend::JoinSpec;
use crate::session::{Session, acquire};

pub(crate) async fn wait(
    session: &Session,
    join: JoinSpec,
    limit: Option<Duration>,
) -> Result<Held, AcquireError> {
    acquire(session.owner(), join, limit).await.map(Held::new)
}

async fn wait_not(session: &Session, mut join: JoinSpec) -> Result<Held, AcquireError> {
    join.try_only = true;
    wait(session, join, None).await
}
