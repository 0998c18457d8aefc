//! What clients may bring to a member, from their connections to their requests.

pub(crate) mod bytes;
pub(crate) mod calls;
pub(crate) mod connections;
