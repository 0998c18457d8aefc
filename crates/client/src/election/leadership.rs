//! One tenure of a leader.

use std::time::Duration;

use crate::backend::Drain;
use crate::clock::Moment;
use crate::fence::HolderKey;
use crate::session::Hold;
use crate::{Doubt, ElectionName, FencingToken, Loss, ProclaimError, ReleaseError, SessionState};

/// Leadership of an election, for as long as it lasts.
///
/// Three ways to know that it still does: ask before acting ([`Leadership::may_act`]), be told
/// ([`Leadership::lost`]), and send the [`Leadership::token`] along with what is written, so that the store
/// can refuse it. Only the last one holds whatever happens to this process in between.
///
/// Dropping it resigns in the background. Resigning uses it up:
///
/// ```compile_fail,E0382
/// # async fn run(leadership: tenure::Leadership) {
/// leadership.resign().await;
/// leadership.may_act(std::time::Duration::ZERO);
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a leadership that is dropped is resigned"]
pub struct Leadership {
    hold: Hold,
}

impl Leadership {
    pub(super) fn new(hold: Hold) -> Leadership {
        Leadership { hold }
    }

    /// The election.
    pub fn name(&self) -> &ElectionName {
        self.hold.name()
    }

    /// The fencing token, to be sent with everything this leader writes.
    pub fn token(&self) -> FencingToken {
        self.hold.token()
    }

    /// The leader's key, to guard writes in the same store with.
    pub fn holder_key(&self) -> HolderKey {
        self.hold.holder_key()
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

    /// The last moment at which this process may act as the leader, as far as is known now.
    pub fn deadline(&self) -> Moment {
        self.hold.core().deadline()
    }

    /// How long that is from now.
    pub fn remaining(&self) -> Duration {
        self.hold.core().remaining()
    }

    /// Waits until it is lost, and says why.
    pub async fn lost(&self) -> Loss {
        self.hold.lost().await
    }

    /// Waits until this leader is asked to stop for a chosen successor: end the work, then resign.
    /// Never, on engines that cannot hand over.
    pub async fn drain(&self) -> Drain {
        self.hold.drain().await
    }

    /// Proclaims another value. Observers see values in the order of these calls.
    ///
    /// # Errors
    /// See [`ProclaimError`].
    pub async fn proclaim(&self, value: impl Into<Vec<u8>>) -> Result<(), ProclaimError> {
        self.hold.proclaim(value.into()).await
    }

    /// Gives it up; to be called when the work has ended. Tried again until the server has confirmed
    /// it. If this future is dropped, that goes on in the background.
    ///
    /// # Errors
    /// If the session is over before that; the leadership ends with it.
    pub async fn resign(self) -> Result<(), ReleaseError> {
        self.hold.release().await
    }

    pub(crate) fn hold(&self) -> &Hold {
        &self.hold
    }
}
