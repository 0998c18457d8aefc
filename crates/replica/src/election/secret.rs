//! What a client shows to speak for a session.

use std::fmt;

/// The SHA-256 digest of a session's secret. The secret itself is known to the client only; what is in the log and in snapshots
/// opens nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretDigest(pub [u8; SecretDigest::BYTES]);

impl SecretDigest {
    /// How long it is.
    pub const BYTES: usize = 32;
}

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest(..)")
    }
}
