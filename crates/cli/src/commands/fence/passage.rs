//! A passage through the gate, held until the upstream is known to be done.
//!
//! Newer holders wait at the gate for passages of older ones. A passage ends at once only when it is
//! [released](HeldPassage::release), which means that the upstream has ended its part. Otherwise the
//! upstream may still be at work, and the passage is held for `--settle` longer. The long way is the one
//! that needs no call, so no panic and no forgotten path can shorten it.

use std::sync::Arc;

use tenure::fence::Passage;

use super::metrics::InFlight;
use super::{Proxy, WorkGuard};

/// A passage that settles when it is dropped.
#[derive(Debug)]
pub(super) struct HeldPassage {
    held: Option<Held>,
    proxy: Arc<Proxy>,
}

#[derive(Debug)]
struct Held {
    passage: Passage,
    _counted: InFlight,
    _working: WorkGuard,
}

impl HeldPassage {
    pub(super) fn new(passage: Passage, proxy: &Arc<Proxy>, working: WorkGuard) -> HeldPassage {
        let held = Held { passage, _counted: proxy.metrics.admitted(), _working: working };
        HeldPassage { held: Some(held), proxy: Arc::clone(proxy) }
    }

    /// Whether a newer holder waits for this passage to end.
    pub(super) fn is_overtaken(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.passage.is_overtaken())
    }

    /// Ends the passage at once: the upstream has ended its part, or has seen nothing of the request.
    pub(super) fn release(mut self) {
        self.held = None;
    }
}

impl Drop for HeldPassage {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.proxy.metrics.unfinished();
        let settle = self.proxy.timeouts.settle;
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                tokio::time::sleep(settle).await;
                drop(held);
            })),
            // The worker stops, and the process with it. Until then no newer request may be admitted.
            Err(_) => std::mem::forget(held),
        }
    }
}
