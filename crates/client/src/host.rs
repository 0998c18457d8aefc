//! What a session runs on: the source of its time, its tasks and its randomness.
//!
//! Sessions and what is built on them use no other source. On a [`Machine`] they are the
//! kernel's clock, a tokio runtime and the operating system's randomness. A simulator hands in a [`Host`] of
//! its own: then everything runs in virtual time, on one thread, and the same seed gives the same run.
//! For that, code that waits for several things at once waits for them in a fixed order (`biased`): where two can be
//! true at the same moment, the order says which one counts.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::backend::Boxed;
use crate::chance::Chance;
use crate::clock::{Boottime, Clock, Moment};

/// What a session runs on.
pub trait Host: Clock {
    /// Waits for so long; for pauses between attempts. Time in suspend need not count, unlike with
    /// [`Clock::sleep_until`].
    fn pause(&self, time: Duration) -> Boxed<'_, ()>;

    /// Starts a task. It goes on whatever becomes of the answer.
    fn spawn(&self, task: Boxed<'static, ()>) -> Leash;

    /// A seed for random numbers: another one each time; not for secrets.
    fn seed(&self) -> u64;
}

/// A handle that can stop a task. Dropping it stops nothing.
pub struct Leash(Box<dyn Fn() + Send + Sync>);

impl Leash {
    /// Stops the task by calling this.
    pub fn new(abort: impl Fn() + Send + Sync + 'static) -> Leash {
        Leash(Box::new(abort))
    }

    /// Drops the task where it stands, unless it has ended.
    pub fn abort(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Leash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leash")
    }
}

impl dyn Host {
    /// Starts a task and returns a future of its result, which fails if the task is dropped before its end.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (tell, result) = oneshot::channel();
        self.spawn(Box::pin(async move {
            let _ = tell.send(task.await);
        }));
        result
    }

    /// What comes of it within so long. What is there when the time is over still counts.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        task: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            done = task => Some(done),
            () = self.pause(limit) => None,
        }
    }

    pub(crate) fn chance(&self) -> Chance {
        Chance::seeded(self.seed())
    }
}

/// This machine: its clock since it was booted, and the tokio runtime that this was made on.
#[derive(Clone, Debug)]
pub struct Machine {
    runtime: Handle,
}

impl Machine {
    /// With the runtime that this is called on.
    ///
    /// # Panics
    /// If there is none.
    pub fn current() -> Machine {
        Machine { runtime: Handle::current() }
    }

    pub(crate) fn host() -> Arc<dyn Host> {
        Arc::new(Machine::current())
    }
}

impl Clock for Machine {
    fn now(&self) -> Moment {
        Boottime.now()
    }

    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move { Boottime.sleep_until(moment).await })
    }
}

impl Host for Machine {
    fn pause(&self, time: Duration) -> Boxed<'_, ()> {
        Box::pin(async move { tokio::time::sleep(time).await })
    }

    fn spawn(&self, task: Boxed<'static, ()>) -> Leash {
        let task = self.runtime.spawn(task).abort_handle();
        Leash::new(move || task.abort())
    }

    fn seed(&self) -> u64 {
        RandomState::new().hash_one(0u8)
    }
}

/// Virtual time: tokio's, which tests can stop and move.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Virtual(tokio::time::Instant);

#[cfg(test)]
impl Virtual {
    pub(crate) fn start() -> Virtual {
        Virtual(tokio::time::Instant::now())
    }
}

#[cfg(test)]
impl Clock for Virtual {
    fn now(&self) -> Moment {
        Moment::after_start(self.0.elapsed())
    }

    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep_until(self.0 + moment.since_start()))
    }
}

#[cfg(test)]
impl Host for Virtual {
    fn pause(&self, time: Duration) -> Boxed<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn spawn(&self, task: Boxed<'static, ()>) -> Leash {
        let task = tokio::spawn(task).abort_handle();
        Leash::new(move || task.abort())
    }

    fn seed(&self) -> u64 {
        7
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn host_takes_what_is_there_at_the_last_moment() {
        let host: Arc<dyn Host> = Arc::new(Virtual::start());
        let limit = Duration::from_secs(1);
        assert_eq!(host.within(limit, std::future::pending::<()>()).await, None);
        assert_eq!(host.now(), Moment::after_start(limit));
        assert_eq!(host.within(Duration::ZERO, async { 7 }).await, Some(7));
    }

    #[tokio::test]
    async fn host_task_that_is_stopped_has_no_result() {
        let host = Machine::host();
        assert_eq!(host.start(async { 7 }).await, Ok(7));
        let (tell, told) = oneshot::channel::<()>();
        let leash = host.spawn(Box::pin(async move {
            std::future::pending::<()>().await;
            drop(tell);
        }));
        leash.abort();
        assert!(told.await.is_err());
    }

    #[tokio::test]
    async fn host_seeds_differ() {
        let host = Machine::host();
        assert_ne!(host.seed(), host.seed());
    }
}
