//! Admission through a gate, while it lasts.

use std::sync::Arc;

use super::FencingToken;
use super::book::Place;
use super::keeper::Keeper;

/// Being inside a gate. Ends when dropped.
///
/// Keep it until nothing of what was begun can still take effect. If the operation runs on another
/// task or thread, or in a queue, the passage has to go there too.
#[derive(Debug)]
#[must_use = "who does not hold the passage is not inside"]
pub struct Passage {
    keeper: Arc<Keeper>,
    place: Place,
    token: FencingToken,
    shared: bool,
}

impl Passage {
    /// For a token that nothing keeps out.
    pub(super) fn new(
        keeper: Arc<Keeper>,
        place: Place,
        token: FencingToken,
        shared: bool,
    ) -> Passage {
        Passage { keeper, place, token, shared }
    }

    /// The token that was let in.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Whether a newer holder has come, which is now waiting for this passage to end. What has begun
    /// may be finished; what can be broken off should be.
    pub fn is_overtaken(&self) -> bool {
        self.keeper.overtaken(&self.place, self.token, self.shared)
    }

    /// Waits until a newer holder has come.
    pub async fn overtaken(&self) {
        loop {
            let changed = self.keeper.changed_async.notified();
            if self.is_overtaken() {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.keeper.leave(&self.place, self.token, self.shared);
    }
}
