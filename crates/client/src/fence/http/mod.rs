//! The gate in front of an HTTP service.
//!
//! A holder sends its token in the header `Fencing-Token`, with reads as well as with writes. The
//! first request of a new holder so raises the gate before anything is read for it.
//!
//! | request | answer |
//! |---|---|
//! | token in force or newer | the service's |
//! | token older than the one in force | 409, with the token in force in the body and in `Fencing-Token` |
//! | no token, method GET, HEAD, OPTIONS or TRACE | the service's |
//! | no token, any other method | 428 |
//! | a header that is no token, or two of them | 400 |
//! | a resource's name that is too long | 400 |
//! | a token that the cluster has not given yet, where that is [checked](super::Horizon) | 400, with the cluster's revision |
//! | the same, while the cluster cannot be asked | 503 with `Retry-After` |
//! | a newer token, while older requests do not end | 503 with `Retry-After` |
//! | any, when the gate is full or broken | 503 |
//!
//! `TokenRule` reads a request's head, `TurnedAway` is the response to a request that is not admitted; the command
//! `tenure fence` is built on these two. `FenceLayer` is all of it as a tower layer, with the feature `tower`.

#[cfg(feature = "tower")]
mod layer;
mod rule;
mod turned_away;

#[cfg(feature = "tower")]
pub use layer::{FenceLayer, Fenced};
pub use rule::TokenRule;
pub use turned_away::TurnedAway;
