//! Chance and pauses for the tasks that serve a stream: the machine's, or a simulator's.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

use super::lease::random;

type Numbers = Arc<dyn Fn() -> u64 + Send + Sync>;
type Pauses = Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// Where chance and pauses come from.
#[derive(Clone)]
pub struct Env {
    numbers: Numbers,
    pauses: Pauses,
}

impl Env {
    /// From these.
    pub fn new(
        numbers: impl Fn() -> u64 + Send + Sync + 'static,
        pauses: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Env {
        Env { numbers: Arc::new(numbers), pauses: Arc::new(pauses) }
    }

    /// A number that is not drawn a second time.
    pub(super) fn number(&self) -> u64 {
        (self.numbers)()
    }

    pub(super) fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        (self.pauses)(time)
    }
}

/// The machine's.
impl Default for Env {
    fn default() -> Env {
        Env::new(random, |time| Box::pin(async move { tokio::time::sleep(time).await }))
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Means")
    }
}
