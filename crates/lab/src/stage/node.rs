//! One process's slot on the stage.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use tenure_replica::Moment;

use super::{Program, View, Word, storage::Write};
use crate::{
    engine::{Clock, End},
    stage::NodeId,
};

/// Something that reaches a process.
#[derive(Clone, Debug)]
pub(super) enum Delivery<M> {
    Word {
        from: NodeId,
        number: u64,
        word: M,
        /// How many messages led to it since an alarm rang.
        rounds: u32,
    },
    Alarm {
        name: &'static str,
        ticket: u64,
    },
    /// Time to work, for a leader.
    Work {
        tenure: u64,
    },
    Write(Write),
    Written(bool),
    /// A connection stands, or has ended.
    Opened(NodeId),
    Closed(NodeId),
}

pub(super) struct Node<M: Word> {
    pub(super) name: String,
    pub(super) program: Box<dyn Program<M>>,
    pub(super) clock: Clock,
    pub(super) up: bool,
    /// It has been started at least once.
    pub(super) started: bool,
    /// Lives so far.
    pub(super) life: u64,
    /// How many faults hold it still.
    pub(super) pauses: u32,
    /// What came meanwhile.
    pub(super) waiting: Vec<Delivery<M>>,
    /// Everything takes it so much longer.
    pub(super) slow: Duration,
    /// Which ring of each alarm counts, and when it is due.
    pub(super) alarms: BTreeMap<&'static str, (u64, Moment)>,
    pub(super) shown: View,
    /// The lines and leases that were last told of it.
    pub(super) lines: Option<Value>,
    /// The tenure in which it believes to lead.
    pub(super) leads: Option<u64>,
    pub(super) token: Option<u64>,
    /// Until when it believes so at the latest, as far as it was told.
    pub(super) until: Option<Moment>,
}

impl<M: Word> Node<M> {
    pub(super) fn new(name: String, program: Box<dyn Program<M>>, clock: Clock) -> Node<M> {
        Node {
            name,
            program,
            clock,
            up: false,
            started: false,
            // That of its start: what is sent to it before is waiting for it.
            life: 1,
            pauses: 0,
            waiting: vec![],
            slow: Duration::ZERO,
            alarms: BTreeMap::new(),
            shown: View::default(),
            lines: None,
            leads: None,
            token: None,
            until: None,
        }
    }

    /// Whether it can act.
    pub(super) fn runs(&self) -> bool {
        self.up && self.pauses == 0
    }

    /// When it will stop to lead by itself.
    pub(super) fn stops_at(&self) -> Option<Moment> {
        self.alarms.get(self.program.stops_at()?).map(|(_, due)| *due)
    }

    /// Whether it acts as a leader right now.
    pub(super) fn believes(&self) -> bool {
        self.runs() && self.leads.is_some()
    }
}

/// What happens on a stage.
#[derive(Debug)]
pub(super) enum Happening<M> {
    Deliver {
        to: End,
        life: u64,
        what: Delivery<M>,
    },
    Start(End),
    Resume(End, u64),
    /// The script's next blow.
    Blow(usize),
    Undo(super::strike::Undo),
}
