//! One member: its disk, and its process while it has one.

use std::time::Duration;

use tenure_api::MemberId;
use tenure_replica::{Input, LogIndex, Moment, Replica, ReplicaConfig};

use super::{
    disk::{LogModel, SimDisk},
    trace_events::TracedState,
};
use crate::engine::SimClock;

/// Members are numbered from 1; the number is also the raft id.
pub type MemberNumber = u64;

pub fn id(member: MemberNumber) -> MemberId {
    MemberId(member)
}

pub struct SimMember {
    pub config: ReplicaConfig,
    pub disk: SimDisk,
    pub process: Option<MemberProcess>,
    /// How often the process has started.
    pub life: u64,
    pub clock: SimClock,
    /// A delay of every call.
    pub slow: Duration,
    /// How long a flush takes without faults.
    pub usual_flush: (Duration, Duration),
    pub membership: MembershipState,
    /// The state that was traced last.
    pub(super) traced: TracedState,
    /// The timer that was traced last, and when it is due.
    pub(super) timer: Option<(&'static str, u64)>,
}

/// Whether a member belongs to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipState {
    /// Its addition was requested, and is not agreed on yet.
    Asked,
    /// It is a member, or was and does not know of its removal.
    In,
    /// It was removed and has stopped for good.
    Gone,
}

/// What is lost when the process ends.
pub struct MemberProcess {
    pub replica: Replica,
    /// The log as it will be when all writes are durable.
    pub log: LogModel,
    pub inbox: Vec<Input>,
    /// The reading of the member's clock at its start.
    pub started: Moment,
    /// How many faults pause it at the moment.
    pub pauses: u32,
    /// The valid ticket of the next call, and when it is due.
    pub ticket: u64,
    pub called_at: Option<Moment>,
    pub checked_up_to: LogIndex,
    /// Up to where the log was applied before the last call.
    pub applied_before: LogIndex,
    /// Calls in a row that changed nothing.
    pub idle_calls: u32,
    pub last_call: Moment,
}

impl SimMember {
    /// The reading of this member's clock.
    pub fn local(&self, now: Moment, started: Moment) -> Moment {
        Moment::after_start(self.clock.monotonic(now).since(started))
    }

    /// When its clock will show `local`.
    pub fn global(&self, local: Moment, started: Moment, now: Moment) -> Moment {
        self.clock.when(started + local.since_start(), now)
    }
}
