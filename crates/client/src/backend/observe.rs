//! An election as others see it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use tenure_api::Revision;

use super::{Boxed, Mode};
use crate::{EngineError, FencingToken};

/// A leader and its tenure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The leader's token.
    pub token: FencingToken,
    /// What it proclaims.
    pub value: Vec<u8>,
    /// The leader's key.
    pub key: Vec<u8>,
    /// Its identity, for people, if the engine knows it.
    pub identity: Option<String>,
}

/// One observation of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// A tenure began, or lasts as the first thing seen.
    Leads(Tenure),
    /// The leader proclaims another value.
    Proclaims(Tenure),
    /// There is no leader.
    NoLeader,
    /// Something may have been missed: what follows is what is still remembered, and then the present state.
    Gap,
}

/// The events of one election, as they happen.
pub trait Observation: fmt::Debug + Send {
    /// The next sight, with the revision it was seen at. The first comes at once.
    fn next(&mut self) -> Boxed<'_, Result<(Revision, Sight), EngineError>>;
}

/// A candidate of an election or a lock: it waits or it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its token: what it holds with, or will hold with.
    pub token: FencingToken,
    /// Its key.
    pub key: Vec<u8>,
    /// What it proclaims, or would.
    pub value: Vec<u8>,
    /// Whether it holds.
    pub holds: bool,
    /// Which candidates may hold beside it.
    pub mode: Mode,
    /// Its identity, for people, if the engine knows it.
    pub identity: Option<String>,
    /// The session behind it, if there is one.
    pub session: Option<tenure_api::LeaseId>,
    /// Higher priority is elected first; 0 where the engine has none.
    pub priority: u32,
    /// It is passed over until it is healthy.
    pub unhealthy: bool,
    /// When it became a candidate, by a server's clock, if the engine keeps it.
    pub since: Option<SystemTime>,
    /// When it began to lead, by a server's clock, if it leads and the engine keeps it.
    pub leads_since: Option<SystemTime>,
    /// Its metadata, by key, if the engine keeps it.
    pub metadata: BTreeMap<String, String>,
}
