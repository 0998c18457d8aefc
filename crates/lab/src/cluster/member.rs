//! One member: its disk, and its process while it has one.

use std::time::Duration;

use tenure_api::MemberId;
use tenure_replica::{Config, Input, LogIndex, Moment, Replica};

use super::{
    disk::{Disk, Log},
    story::Shown,
};
use crate::engine::Clock;

/// Members are numbered from 1; the number is also the raft id.
pub type Number = u64;

pub fn id(member: Number) -> MemberId {
    MemberId(member)
}

pub struct Member {
    pub config: Config,
    pub disk: Disk,
    pub process: Option<Process>,
    /// Lives so far, the present one included.
    pub life: u64,
    pub clock: Clock,
    /// Every call takes it so much longer.
    pub slow: Duration,
    pub standing: Standing,
    /// What was last told of it.
    pub(super) shown: Shown,
    /// Which of its alarms was last told to ring when.
    pub(super) timer: Option<(&'static str, u64)>,
}

/// Whether it belongs to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has been asked for, and nobody has agreed yet.
    Asked,
    /// It does, or did and has not heard of its removal.
    In,
    /// It was removed and has stopped for good.
    Gone,
}

/// What is gone when the process ends.
pub struct Process {
    pub replica: Replica,
    /// The log as it will be when all writes are durable.
    pub log: Log,
    pub inbox: Vec<Input>,
    /// What the member's clock said when it began.
    pub started: Moment,
    /// How many faults hold it still.
    pub pauses: u32,
    /// Which call is expected next, and when.
    pub ticket: u64,
    pub called_at: Option<Moment>,
    pub checked_up_to: LogIndex,
    /// Up to where the log was applied before the last call.
    pub applied_before: LogIndex,
    /// Calls in a row that changed nothing.
    pub idle_calls: u32,
    pub last_call: Moment,
}

impl Member {
    /// What this member's clock says.
    pub fn local(&self, now: Moment, started: Moment) -> Moment {
        Moment::after_start(self.clock.monotonic(now).since(started))
    }

    /// When its clock will say so.
    pub fn global(&self, local: Moment, started: Moment, now: Moment) -> Moment {
        self.clock.when(started + local.since_start(), now)
    }
}
