//! One tenure of a leader.

use std::ops::Deref;

use crate::session::Held;
use crate::{ProclaimError, ReleaseError};

/// Leadership of an election, for as long as it lasts.
///
/// It is what is [`Held`], and has all of its methods: [`token`](Held::token), [`may_act`](Held::may_act),
/// [`lost`](Held::lost), [`drain`](Held::drain) … What a leader can do beyond that is to
/// [`proclaim`](Leadership::proclaim) another value; and it does not release, it [resigns](Leadership::resign).
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
    held: Held,
}

impl Leadership {
    pub(super) fn new(held: Held) -> Leadership {
        Leadership { held }
    }

    /// Proclaims another value. Observers see values in the order of these calls.
    ///
    /// # Errors
    /// See [`ProclaimError`].
    pub async fn proclaim(&self, value: impl Into<Vec<u8>>) -> Result<(), ProclaimError> {
        self.held.proclaim(value.into()).await
    }

    /// Gives it up; to be called when the work has ended. Tried again until the server has confirmed
    /// it. If this future is dropped, that goes on in the background.
    ///
    /// # Errors
    /// If the session is over before that; the leadership ends with it.
    pub async fn resign(self) -> Result<(), ReleaseError> {
        self.held.release().await
    }
}

impl Deref for Leadership {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}
