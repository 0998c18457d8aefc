//! What a candidate asks for, and what it gets.

use tenure_api::Mode;

use crate::{ElectionName, FencingToken};

/// A request to become a candidate.
#[derive(Clone, Debug)]
pub struct Join {
    /// What to contend for. Several names are held all at once or not at all.
    pub names: Vec<ElectionName>,
    /// Which candidates may hold beside this one.
    pub mode: Mode,
    /// A value for others to read.
    pub value: Vec<u8>,
    /// Hold it now or do not become a candidate at all.
    pub try_only: bool,
    /// Higher priority is elected first, if the engine can.
    pub priority: u32,
    /// Take over from a leader of lower priority.
    pub preempts: bool,
    /// Be passed over until reported healthy ([`Session::report_health`](crate::Session::report_health)),
    /// if the engine can.
    pub unhealthy: bool,
    /// Hold it only when the holder before has surely stopped, if the engine can tell.
    pub no_overlap: bool,
    /// Metadata for people and programs that list candidates, if the engine keeps it.
    pub metadata: Vec<(String, String)>,
}

impl Join {
    /// A plain request to wait for one name.
    pub fn one(name: ElectionName, mode: Mode) -> Join {
        Join {
            names: vec![name],
            mode,
            value: vec![],
            try_only: false,
            priority: 0,
            preempts: false,
            unhealthy: false,
            no_overlap: false,
            metadata: vec![],
        }
    }

    /// The name to mention in messages.
    pub fn first_name(&self) -> ElectionName {
        self.names.first().cloned().expect("whoever joins names something")
    }
}

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
