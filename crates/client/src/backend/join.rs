//! What is asked for when one stands in line, and what one gets.

use crate::{FencingToken, LineName};

/// Who may hold beside whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One holder.
    Exclusive,
    /// Any number of holders with each other, none beside an exclusive one.
    Shared,
    /// As many holders as there are permits.
    Permit {
        /// How many. All who stand in line must say the same.
        of: u32,
    },
}

/// A wish to stand in line.
#[derive(Clone, Debug)]
pub struct Join {
    /// For what. Several names are held all at once or not at all.
    pub names: Vec<LineName>,
    /// Beside whom.
    pub mode: Mode,
    /// What others are to know.
    pub value: Vec<u8>,
    /// Hold it now or do not stand in line at all.
    pub try_only: bool,
    /// Who has more is elected before who has less, if the engine can.
    pub priority: u32,
    /// Take over from a leader of lower priority.
    pub preempts: bool,
    /// Let others pass until it is said to be well ([`Session::report_health`](crate::Session::report_health)),
    /// if the engine can.
    pub unhealthy: bool,
    /// Hold it only when the one before has surely stopped, if the engine can tell.
    pub no_overlap: bool,
    /// For people and programs that list candidates, if the engine keeps it.
    pub metadata: Vec<(String, String)>,
}

impl Join {
    /// A plain wish to wait for one name.
    pub fn one(name: LineName, mode: Mode) -> Join {
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
    pub fn first_name(&self) -> LineName {
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
    pub name: LineName,
    /// The token that goes with it.
    pub token: FencingToken,
    /// Of a semaphore, which permit it is, if the engine numbers them. Tokens grow per permit.
    pub slot: Option<u32>,
}
