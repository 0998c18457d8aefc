//! A line as others see it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use tenure_api::Revision;

use super::{Boxed, Mode};
use crate::{EngineError, FencingToken};

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The leader's token.
    pub token: FencingToken,
    /// What it proclaims.
    pub value: Vec<u8>,
    /// The leader's key.
    pub key: Vec<u8>,
    /// Who it is, for people, if the engine knows.
    pub identity: Option<String>,
}

/// Something that was seen of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// A tenure began, or lasts as the first thing seen.
    Leads(Tenure),
    /// The leader proclaims something else.
    Proclaims(Tenure),
    /// Nobody leads.
    NoLeader,
    /// Something may have been missed: what follows is what is still remembered, and then how things stand now.
    Gap,
}

/// What is seen of one line, as it happens.
pub trait Observation: fmt::Debug + Send {
    /// The next sight, with the revision it was seen at. The first comes at once.
    fn next(&mut self) -> Boxed<'_, Result<(Revision, Sight), EngineError>>;
}

/// Somebody who stands in line.
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
    /// Beside whom.
    pub mode: Mode,
    /// Who it is, for people, if the engine knows.
    pub identity: Option<String>,
    /// The session behind it, if there is one.
    pub session: Option<tenure_api::LeaseId>,
    /// Who has more is elected before who has less; 0 where the engine has none.
    pub priority: u32,
    /// It lets others pass until it is well.
    pub unhealthy: bool,
    /// Since when it waits or holds, by a server's clock, if the engine keeps it.
    pub since: Option<SystemTime>,
    /// What it says of itself, by key, if the engine keeps it.
    pub metadata: BTreeMap<String, String>,
}
