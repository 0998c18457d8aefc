//! One member: its disk, and its process while it has one.

use std::time::Duration;

use tenure_api::{Member, MemberId};
use tenure_disk::DiskError;
use tenure_replica::{Input, LogIndex, Moment, Replica, ReplicaConfig, canary};

use super::{
    disk::{LogModel, SimDisk},
    trace_events::TracedState,
};
use crate::engine::{Dice, SimClock};

/// Members are numbered from 1; the number is also the raft id.
pub type MemberNumber = u64;

pub fn id(member: MemberNumber) -> MemberId {
    MemberId(member)
}

/// A founder, as the list of members has it.
pub fn listed(member: MemberNumber) -> Member {
    Member {
        id: id(member),
        name: String::new(),
        peer_urls: vec![peer_url(member)],
        client_urls: vec![],
        is_learner: false,
    }
}

pub fn peer_url(member: MemberNumber) -> String {
    format!("http://m{member}:2380")
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
    /// A member that has not run yet.
    pub fn new(config: ReplicaConfig, clock: SimClock, membership: MembershipState) -> SimMember {
        let disk = SimDisk::new(config.seed ^ config.me.0);
        let (process, slow, traced) = (None, Duration::ZERO, TracedState::default());
        let (life, timer, usual_flush) = (0, None, disk.flush);
        SimMember {
            config,
            disk,
            process,
            life,
            clock,
            slow,
            usual_flush,
            membership,
            traced,
            timer,
        }
    }

    /// The process starts with what the disk has.
    pub fn start(&mut self, now: Moment) -> Result<(), DiskError> {
        let mut recovered = self.disk.recover(self.config.me, &self.config.members)?;
        if canary!(VoteForgotten) {
            recovered.hard_state.vote = None;
        }
        let log = self.disk.durable.clone();
        let checked_up_to = log.base.0;
        self.process = Some(MemberProcess {
            replica: Replica::new(Moment::ZERO, self.config.clone(), recovered),
            log,
            inbox: vec![],
            started: self.clock.monotonic(now),
            pauses: 0,
            ticket: 0,
            called_at: None,
            checked_up_to,
            applied_before: checked_up_to,
            idle_calls: 0,
            last_call: now,
        });
        Ok(())
    }

    /// Begins the next flush if the disk is free. Returns how long it takes.
    pub fn flush(&mut self, dice: &mut Dice) -> Option<Duration> {
        let (low, high) = self.disk.flush;
        self.disk.begin().then(|| dice.duration(low, high))
    }

    /// The reading of this member's clock.
    pub fn local(&self, now: Moment, started: Moment) -> Moment {
        Moment::after_start(self.clock.monotonic(now).since(started))
    }

    /// When its clock will show `local`.
    pub fn global(&self, local: Moment, started: Moment, now: Moment) -> Moment {
        self.clock.when(started + local.since_start(), now)
    }
}
