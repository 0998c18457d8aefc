//! What speaks for a session.

use std::fmt;

use bytes::Bytes;

/// Lets another process of the same program say that all work of a session has ended, after which successors need not
/// wait. Empty where the server asks for none: on etcd, and while a member of an earlier release is there.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SessionSecret(pub Bytes);

/// Says nothing of it, for logs.
impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret(..)")
    }
}
