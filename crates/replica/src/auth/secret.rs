//! Bytes that must not be shown: they never appear in a log line, an error or a test's output.

use std::fmt;

use bytes::Bytes;

/// What is made of a password or a token.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Bytes);

impl Secret {
    /// The bytes.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<Bytes> for Secret {
    fn from(bytes: Bytes) -> Secret {
        Secret(bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
