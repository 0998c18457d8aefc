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
    /// What the leader calls itself, for people: its identity, or its value if the engine keeps no identities (etcd) or
    /// the leader has none (a client of etcd's API), or its token if the value is no text. Never empty.
    pub identity: String,
    /// The leader's token.
    pub token: FencingToken,
    /// What it proclaims.
    pub value: Vec<u8>,
    /// The leader's key.
    pub key: Vec<u8>,
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

impl Sight {
    /// The leader that was seen, if there is one.
    pub fn leader(&self) -> Option<&Tenure> {
        match self {
            Sight::Leads(leader) | Sight::Proclaims(leader) => Some(leader),
            Sight::NoLeader | Sight::Gap => None,
        }
    }
}

/// The events of one election, as they happen.
pub trait Observation: fmt::Debug + Send {
    /// The next sight, with the revision it was seen at. The first comes at once.
    fn next(&mut self) -> Boxed<'_, Result<(Revision, Sight), EngineError>>;
}

/// A candidate of an election or a lock: it waits or it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What it calls itself, for people, as in [`Tenure::identity`].
    pub identity: String,
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

/// What a candidate is called: what it says, or its value, or its token.
pub(super) fn called(identity: &str, value: &[u8], token: FencingToken) -> String {
    let value = || std::str::from_utf8(value).ok().filter(|value| !value.is_empty());
    match Some(identity).filter(|identity| !identity.is_empty()).or_else(value) {
        Some(name) => name.to_owned(),
        None => format!("token {token}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidate_name_is_the_identity_or_the_value_or_the_token() {
        let token = FencingToken::from_revision(13).unwrap();
        assert_eq!(called("host-a/7", b"10.0.0.1:80", token), "host-a/7");
        assert_eq!(called("", b"10.0.0.1:80", token), "10.0.0.1:80");
        assert_eq!(called("", b"", token), "token 13");
        assert_eq!(called("", b"\xff\x00", token), "token 13");
    }
}
