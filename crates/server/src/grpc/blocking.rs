//! Work on a snapshot of the state that takes long: computing a checksum, or reading a large range.
//!
//! Each runs on a thread of its own, beside the core loop. Without a limit, clients that ask often enough would take the
//! processors from the renewals of sessions; so only a few run at once. Further requests wait in a queue: a
//! checksum or a list of keys a little later is what a client can use, and a refusal is not. The queue is bounded, too,
//! because every request in it keeps a state of its time from being freed.

use std::sync::Arc;

use tenure_api::Failure;
use tokio::sync::{Semaphore, oneshot};

use crate::node::files::beside;

/// Checksums that are reckoned at once: each walks over all keys.
const HASHES_MAX: usize = 2;
/// Requests that may wait for one.
const HASHES_WAITING_MAX: usize = 64;
/// Ranges of a large store, and transactions that only read such, that are read at once. Many of them are small: they must
/// not stand long behind a few that are not.
const READS_MAX: usize = 8;
/// Requests that may wait for one.
const READS_WAITING_MAX: usize = 10_000;

/// Passwords that are made or checked at once.
const PASSWORDS_MAX: usize = 2;
/// Log-ins, and changes of passwords, that may wait for that; more are refused.
const PASSWORDS_WAITING_MAX: usize = 1000;

/// One kind of such work.
#[derive(Clone, Debug)]
pub(crate) struct BlockingPool {
    at_once: Arc<Semaphore>,
    /// Requests that wait or run, together.
    all: Arc<Semaphore>,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// Like those that serve clients.
    Readily,
    /// Out of the way of those that serve clients, on a thread of this name.
    Nicely(&'static str),
}

impl BlockingPool {
    /// Checksums: they compare members, and are not in a hurry.
    pub(super) fn hashes() -> BlockingPool {
        BlockingPool::new(HASHES_MAX, HASHES_WAITING_MAX, How::Nicely("hash"))
    }

    /// Ranges of a large store: a client waits for the keys.
    pub(super) fn reads() -> BlockingPool {
        BlockingPool::new(READS_MAX, READS_WAITING_MAX, How::Readily)
    }

    /// Passwords: each takes a thread for as long as bcrypt is told to take.
    pub(crate) fn passwords() -> BlockingPool {
        BlockingPool::new(PASSWORDS_MAX, PASSWORDS_WAITING_MAX, How::Nicely("password"))
    }

    fn new(at_once: usize, waiting: usize, how: How) -> BlockingPool {
        let places = |count| Arc::new(Semaphore::new(count));
        BlockingPool { at_once: places(at_once), all: places(at_once + waiting), how }
    }

    /// Does it when its turn comes. A call that goes away while it waits leaves the queue; work that has begun goes on to its
    /// end, and counts until then.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let all = self.all.clone().try_acquire_owned().map_err(|_| Failure::TooManyRequests)?;
        let turn = self.at_once.clone().acquire_owned().await.map_err(|_| Failure::Stopped)?;
        let (done, answer) = oneshot::channel();
        let work = move || {
            let result = work();
            drop((turn, all));
            // The caller may be gone.
            let _ = done.send(result);
        };
        match self.how {
            How::Nicely(name) => beside(name, work),
            How::Readily => drop(tokio::task::spawn_blocking(work)),
        }
        answer.await.map_err(|_| Failure::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::JoinSet;

    use super::*;

    /// As many as may run do, as many as may wait wait, and all others are refused.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_few_run_some_wait_and_more_are_refused() {
        for how in [How::Readily, How::Nicely("hash")] {
            let blocking = BlockingPool::new(2, 3, how);
            let (begun, begins) = mpsc::channel();
            let (go_on, gate) = mpsc::channel::<()>();
            let gate = Arc::new(std::sync::Mutex::new(gate));
            let mut callers = JoinSet::new();
            for caller in 0..5 {
                let (blocking, begun, gate) = (blocking.clone(), begun.clone(), gate.clone());
                callers.spawn(async move {
                    let work = move || {
                        begun.send(caller).unwrap();
                        gate.lock().unwrap().recv().unwrap();
                        caller
                    };
                    blocking.run(work).await
                });
            }
            let mut seen = vec![begins.recv().unwrap(), begins.recv().unwrap()];
            while blocking.all.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(blocking.run(|| ()).await, Err(Failure::TooManyRequests));
            assert!(begins.try_recv().is_err(), "no third one has begun");
            for _ in 0..5 {
                go_on.send(()).unwrap();
            }
            let mut done: Vec<i32> =
                callers.join_all().await.into_iter().map(Result::unwrap).collect();
            done.sort_unstable();
            assert_eq!(done, [0, 1, 2, 3, 4]);
            seen.extend(begins.try_iter());
            assert_eq!(seen.len(), 5);
            assert_eq!(blocking.run(|| 6).await, Ok(6));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn password_that_is_one_past_what_may_wait_is_refused() {
        let passwords = BlockingPool::passwords();
        let turns = passwords.at_once.acquire_many(PASSWORDS_MAX as u32).await.unwrap();
        let mut waiting = JoinSet::new();
        for _ in 0..PASSWORDS_MAX + PASSWORDS_WAITING_MAX {
            let passwords = passwords.clone();
            waiting.spawn(async move { passwords.run(|| ()).await });
        }
        while passwords.all.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(passwords.run(|| ()).await, Err(Failure::TooManyRequests));
        drop(turns);
        assert!(waiting.join_all().await.iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn who_goes_away_leaves_the_line_and_work_that_fails_gives_its_turn_back() {
        let blocking = BlockingPool::new(1, 1, How::Readily);
        let failed = blocking.run(|| panic!("as it may")).await;
        assert_eq!(failed, Err::<(), _>(Failure::Stopped));
        let (go_on, gate) = mpsc::channel::<()>();
        let runs = tokio::spawn({
            let blocking = blocking.clone();
            async move { blocking.run(move || gate.recv().unwrap()).await }
        });
        while blocking.at_once.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..3 {
            let mut waits = Box::pin(blocking.run(|| ()));
            assert!(futures_util::poll!(&mut waits).is_pending());
            assert_eq!(blocking.run(|| ()).await, Err(Failure::TooManyRequests));
        }
        go_on.send(()).unwrap();
        assert_eq!(runs.await.unwrap(), Ok(()));
    }
}
