//! What a caller shows at a gate: a token, for which resource, and how it is held.

use super::FencingToken;

/// How the lock behind a token is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hold {
    /// By one holder: an election, a lock, the write side of a reader-writer lock.
    Exclusive,
    /// Together with other readers: the read side of a reader-writer lock.
    Shared,
    /// One permit of a semaphore. Each slot has its own series of growing tokens.
    Permit {
        /// Which permit.
        slot: u32,
    },
}

/// A token as it is shown at a [`Gate`](super::Gate): for one resource, held in one way.
///
/// A bare [`FencingToken`] is a pass for the resource with the empty name, held exclusively, which
/// is all that a gate in front of one thing needs.
///
/// ```
/// use tenure::fence::{FencingToken, Pass};
///
/// let token = FencingToken::from_revision(7).unwrap();
/// let writer = Pass::to("shard/3", token);
/// let reader = Pass::to("shard/3", token).shared();
/// let worker = Pass::to("crawlers", token).permit(2);
/// # let _ = (writer, reader, worker);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass<'a> {
    /// What is to be touched.
    pub resource: &'a str,
    /// The token that was shown.
    pub token: FencingToken,
    /// How it is held.
    pub hold: Hold,
}

impl<'a> Pass<'a> {
    /// A pass of an exclusive holder.
    pub fn to(resource: &'a str, token: FencingToken) -> Pass<'a> {
        Pass { resource, token, hold: Hold::Exclusive }
    }

    /// The same, of a reader among readers.
    #[must_use]
    pub fn shared(self) -> Pass<'a> {
        Pass { hold: Hold::Shared, ..self }
    }

    /// The same, of the holder of one permit.
    #[must_use]
    pub fn permit(self, slot: u32) -> Pass<'a> {
        Pass { hold: Hold::Permit { slot }, ..self }
    }
}

impl From<FencingToken> for Pass<'static> {
    fn from(token: FencingToken) -> Pass<'static> {
        Pass::to("", token)
    }
}
