//! Being inside the gate, and how it ends.
//!
//! There are two ends. Either it is known that the upstream is done, and somebody says so; or it is
//! not, and then the passage is held for `--settle` longer. The second one is what happens when nobody
//! says anything, so that no panic and no forgotten path can shorten it.

use std::sync::Arc;

use tenure::fence::Passage;

use super::metrics::InFlight;
use super::{Alive, Proxy};

/// A passage, counted as such.
#[derive(Debug)]
pub(super) struct Inside {
    held: Option<Held>,
    proxy: Arc<Proxy>,
}

#[derive(Debug)]
struct Held {
    passage: Passage,
    _counted: InFlight,
    _alive: Alive,
}

impl Inside {
    pub(super) fn new(passage: Passage, proxy: &Arc<Proxy>, alive: Alive) -> Inside {
        let held = Held { passage, _counted: proxy.metrics.admitted(), _alive: alive };
        Inside { held: Some(held), proxy: Arc::clone(proxy) }
    }

    /// Whether a newer holder waits for this one to end.
    pub(super) fn is_overtaken(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.passage.is_overtaken())
    }

    /// Leaves at once: the upstream has ended its part, or has seen nothing.
    pub(super) fn leave(mut self) {
        self.held = None;
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.proxy.metrics.unfinished();
        let settle = self.proxy.waits.settle;
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                tokio::time::sleep(settle).await;
                drop(held);
            })),
            // The worker is going down, and the process with it. Nobody else may come in before.
            Err(_) => std::mem::forget(held),
        }
    }
}
