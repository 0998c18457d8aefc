//! Locks: one holder, some, or several names at once; and the guard that they give.
//!
//! | lock | holders |
//! |---|---|
//! | [`Lock`] | one |
//! | [`RwLock`] | one writer, or any number of readers |
//! | [`Semaphore`] | as many as there are permits |
//! | [`MultiLock`] | one, several names at once |
//!
//! All give the same guard, [`Held`](crate::Held); all are fair: first come, first served. Each can be waited for, waited for with a
//! limit, or tried.

mod exclusive;
mod multi;
mod rw;
mod semaphore;

pub use exclusive::Lock;
pub use multi::MultiLock;
pub use rw::RwLock;
pub use semaphore::Semaphore;

use crate::AcquireError;
use crate::backend::JoinSpec;
use crate::session::{Held, Session};

async fn wait_not(session: &Session, mut join: JoinSpec) -> Result<Held, AcquireError> {
    join.try_only = true;
    session.join(join, None).await
}
