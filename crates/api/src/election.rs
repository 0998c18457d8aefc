//! What a candidate asks for, and what clients and members agree on about elections.

use std::time::Duration;

use bytes::Bytes;

/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 1024;
/// A process whose connection broke may attach again within this time before fast release ends its session. The
/// process counts its session as lost after half of it.
pub const REATTACH_WINDOW: Duration = Duration::from_millis(50);

/// How many candidates may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One.
    Exclusive,
    /// Any number of shared holders, none beside an exclusive one.
    Shared,
    /// As many as there are permits. All candidates must give the same number.
    Permit(u32),
}

/// How to be a candidate. Names are bytes on the wire and in the log; the library has a type for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinSpec<Name = Bytes> {
    /// What to contend for. Several names are held all at once or not at all.
    pub names: Vec<Name>,
    /// A value for others to read.
    pub value: Bytes,
    /// How many candidates may hold at once.
    pub mode: Mode,
    /// Higher priority is elected first, if the engine can.
    pub priority: u32,
    /// Take over even from a leader of lower priority.
    pub preempts: bool,
    /// Hold it only when the previous holder has surely stopped, if the engine can tell.
    pub no_overlap: bool,
    /// Hold it now or do not become a candidate at all.
    pub try_only: bool,
    /// Be passed over until reported healthy, if the engine can.
    pub unhealthy: bool,
    /// Metadata for people and programs that list candidates, if the engine keeps it.
    pub metadata: Vec<(String, String)>,
}

impl<Name: Clone> JoinSpec<Name> {
    /// A plain request to wait for one name.
    pub fn one(name: Name, mode: Mode) -> JoinSpec<Name> {
        JoinSpec {
            names: vec![name],
            value: Bytes::new(),
            mode,
            priority: 0,
            preempts: false,
            no_overlap: false,
            try_only: false,
            unhealthy: false,
            metadata: vec![],
        }
    }

    /// The name to mention in messages.
    pub fn first_name(&self) -> Name {
        self.names.first().cloned().expect("a candidate has a name")
    }
}
