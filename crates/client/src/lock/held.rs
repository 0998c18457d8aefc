//! The guard of every lock.

use std::time::Duration;

use crate::backend::Drain;
use crate::clock::Moment;
use crate::session::Hold;
use crate::{Doubt, ElectionName, FencingToken, Loss, ReleaseError, SessionState};

/// Something that is held, for as long as it lasts.
///
/// A lock on a server can be lost during the work: the process was paused, the network cut. Ask before
/// acting ([`Held::may_act`]), be told ([`Held::lost`]), and send the [`Held::token`] along with what
/// is written; only the last one holds whatever happens to this process in between.
///
/// Dropping it releases it in the background. Releasing uses it up:
///
/// ```compile_fail,E0382
/// # async fn run(held: tenure::Held) {
/// held.release().await;
/// held.token();
/// # }
/// ```
#[derive(Debug)]
#[must_use = "what is dropped is released"]
pub struct Held {
    hold: Hold,
}

impl Held {
    pub(super) fn new(hold: Hold) -> Held {
        Held { hold }
    }

    /// What is held; the first of several.
    pub fn name(&self) -> &ElectionName {
        self.hold.name()
    }

    /// The fencing token, to be sent with everything that is written under this lock; of several, the first.
    pub fn token(&self) -> FencingToken {
        self.hold.token()
    }

    /// All that is held, with the token of each.
    pub fn tokens(&self) -> impl Iterator<Item = (&ElectionName, FencingToken)> {
        self.hold.grant().held.iter().map(|held| (&held.name, held.token))
    }

    /// Of a semaphore, which permit it is, if the engine numbers them.
    pub fn slot(&self) -> Option<u32> {
        self.hold.grant().held[0].slot
    }

    /// Whether something that takes so long may be begun now, and under which token.
    ///
    /// # Errors
    /// The [`Doubt`], if not.
    pub fn may_act(&self, takes: Duration) -> Result<FencingToken, Doubt> {
        self.hold.may_act(takes)
    }

    /// What may be believed now.
    pub fn state(&self) -> SessionState {
        match self.hold.loss() {
            Some(loss) => SessionState::Lost(loss),
            None => self.hold.core().refresh(),
        }
    }

    /// The last moment at which this process may act as the holder, as far as is known now.
    pub fn deadline(&self) -> Moment {
        self.hold.core().deadline()
    }

    /// Waits until that is another moment than `known`: later after every renewal, earlier when the connection of a
    /// session with fast release breaks.
    pub async fn deadline_moved(&self, known: Moment) -> Moment {
        self.hold.core().deadline_moved(known).await
    }

    /// How long that is from now.
    pub fn remaining(&self) -> Duration {
        self.hold.core().remaining()
    }

    /// Waits until it is lost, and says why.
    pub async fn lost(&self) -> Loss {
        self.hold.lost().await
    }

    /// Waits until the holder is asked to stop for a chosen successor: end the work, then release.
    /// Never, on engines that cannot hand over.
    pub async fn drain(&self) -> Drain {
        self.hold.drain().await
    }

    /// Gives it up, and waits until the server has confirmed it. If this future is dropped, that goes
    /// on in the background.
    ///
    /// # Errors
    /// If the session is over before that; the hold ends with it.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.hold.release().await
    }
}
