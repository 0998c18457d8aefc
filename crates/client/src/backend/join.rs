//! What a candidate asks for, and what it gets.

use crate::{ElectionName, FencingToken};

/// A request to become a candidate.
pub type JoinSpec = tenure_api::JoinSpec<ElectionName>;

/// What is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// One for each name, in the order they were asked for; never empty.
    pub held: Vec<HeldName>,
}

/// One name that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldName {
    /// The name.
    pub name: ElectionName,
    /// The token that goes with it.
    pub token: FencingToken,
    /// Of a semaphore, which permit it is, if the engine numbers them. Tokens grow per permit.
    pub slot: Option<u32>,
}
