//! What the stage keeps for one process.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use tenure_replica::Moment;

use super::{Actor, ProcessView, ProtocolMessage, storage::StorageWrite};
use crate::{
    engine::{ProcessId, SimClock},
    faults::{ScriptStep, Undo},
};

/// Something that reaches a process.
#[derive(Clone, Debug)]
pub(super) enum Delivery<M> {
    Message {
        from: ProcessId,
        number: u64,
        message: M,
        /// How many messages led to it since the last alarm.
        rounds: u32,
    },
    Alarm {
        name: &'static str,
        ticket: u64,
    },
    /// The leader's next write is due.
    Work {
        tenure: u64,
    },
    Write(StorageWrite),
    Written(bool),
    /// A connection was opened, or closed.
    Opened(ProcessId),
    Closed(ProcessId),
}

pub(super) struct Slot<M: ProtocolMessage> {
    pub(super) name: String,
    pub(super) actor: Box<dyn Actor<M>>,
    pub(super) clock: SimClock,
    pub(super) up: bool,
    /// Whether it was started at least once.
    pub(super) started: bool,
    /// How often the process has started.
    pub(super) life: u64,
    /// How many faults pause it at the moment.
    pub(super) pauses: u32,
    /// What arrived while it was paused.
    pub(super) waiting: Vec<Delivery<M>>,
    /// A delay for everything that it does.
    pub(super) slow: Duration,
    /// The valid ticket of each alarm, and when it is due.
    pub(super) alarms: BTreeMap<&'static str, (u64, Moment)>,
    pub(super) traced: ProcessView,
    /// The elections and leases that were traced last.
    pub(super) elections: Option<Value>,
    /// The tenure in which it believes to lead.
    pub(super) leads: Option<u64>,
    pub(super) token: Option<u64>,
    /// The last moment at which it believes to lead, as traced.
    pub(super) until: Option<Moment>,
}

impl<M: ProtocolMessage> Slot<M> {
    pub(super) fn new(name: String, actor: Box<dyn Actor<M>>, clock: SimClock) -> Slot<M> {
        Slot {
            name,
            actor,
            clock,
            up: false,
            started: false,
            // The number of its first life: messages that are sent before its start reach it.
            life: 1,
            pauses: 0,
            waiting: vec![],
            slow: Duration::ZERO,
            alarms: BTreeMap::new(),
            traced: ProcessView::default(),
            elections: None,
            leads: None,
            token: None,
            until: None,
        }
    }

    /// Whether it is up and not paused.
    pub(super) fn runs(&self) -> bool {
        self.up && self.pauses == 0
    }

    /// When it stops leading by itself.
    pub(super) fn stops_at(&self) -> Option<Moment> {
        self.alarms.get(self.actor.stops_at()?).map(|(_, due)| *due)
    }

    /// Whether it acts as a leader right now.
    pub(super) fn believes(&self) -> bool {
        self.runs() && self.leads.is_some()
    }
}

/// An event on the agenda of a stage.
#[derive(Debug)]
pub(super) enum StageEvent<M> {
    Deliver {
        to: ProcessId,
        life: u64,
        what: Delivery<M>,
    },
    Start(ProcessId),
    Resume(ProcessId, u64),
    /// The next step of the fault script is due.
    Inject(ScriptStep),
    /// A fault ends.
    Undo(Undo),
}
