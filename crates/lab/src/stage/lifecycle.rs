//! Start, crash, pause and resume of processes, and their connections, for algorithms that use them.
//!
//! The kernel of a process that ends closes its connections, and the other processes are told at once. They
//! are told nothing about a process that is paused or cut off.

use std::time::Duration;

use super::{
    ProcessId, ProtocolMessage, Stage,
    slot::{Delivery, StageEvent},
};
use crate::engine::TraceEvent;

impl<M: ProtocolMessage> Stage<M> {
    pub(super) fn start(&mut self, process: ProcessId) {
        let slot = &mut self.slots[process as usize];
        if slot.up {
            return;
        }
        slot.life += u64::from(slot.started);
        (slot.up, slot.started) = (true, true);
        slot.pauses = 0;
        slot.waiting.clear();
        slot.alarms.clear();
        slot.elections = None;
        let (name, contends) = (slot.name.clone(), (process as usize) < self.contenders);
        self.trace_event(|| TraceEvent::new("start", "starts").of(name).with("contends", contends));
        self.act(process, 0, |actor, context| actor.start(context));
        self.open_connections(process);
    }

    pub(super) fn crash(&mut self, process: ProcessId) {
        if !self.slots[process as usize].up {
            return;
        }
        self.end_tenure(process);
        let slot = &mut self.slots[process as usize];
        slot.up = false;
        slot.waiting.clear();
        let name = slot.name.clone();
        self.trace_event(|| TraceEvent::new("crash", "is dead").of(name));
        self.close_connections(process);
        self.count_believers();
    }

    pub(super) fn pause(&mut self, process: ProcessId, lasts: Duration) {
        let slot = &mut self.slots[process as usize];
        if !slot.up {
            return;
        }
        slot.pauses += 1;
        let (name, life) = (slot.name.clone(), slot.life);
        self.trace_event(|| TraceEvent::new("pause", "is paused").of(name));
        self.count_believers();
        self.agenda.after(lasts, StageEvent::Resume(process, life));
    }

    pub(super) fn resume(&mut self, process: ProcessId, life: u64) {
        let slot = &mut self.slots[process as usize];
        if !slot.up || slot.life != life || slot.pauses == 0 {
            return;
        }
        slot.pauses -= 1;
        if slot.pauses > 0 {
            return;
        }
        let (name, waiting) = (slot.name.clone(), std::mem::take(&mut slot.waiting));
        self.trace_event(|| TraceEvent::new("resume", "resumes").of(name));
        self.count_believers();
        for what in waiting {
            self.deliver(process, what);
        }
    }

    /// Tells a process that has started and all others in reach of each other.
    pub(super) fn open_connections(&mut self, process: ProcessId) {
        for other in self.peers_in_reach(process) {
            self.bring(other, process, Delivery::Opened(other));
            self.bring(process, other, Delivery::Opened(process));
        }
    }

    /// Tells all processes in reach that this one has ended.
    pub(super) fn close_connections(&mut self, process: ProcessId) {
        for other in self.peers_in_reach(process) {
            self.bring(process, other, Delivery::Closed(process));
        }
    }

    fn peers_in_reach(&self, process: ProcessId) -> Vec<ProcessId> {
        if !self.connections {
            return vec![];
        }
        let linked =
            |other| !self.links.is_cut(process, other) && !self.links.is_cut(other, process);
        self.processes()
            .filter(|other| *other != process && self.slots[*other as usize].up && linked(*other))
            .collect()
    }

    /// News of a connection cannot be lost.
    fn bring(&mut self, from: ProcessId, to: ProcessId, what: Delivery<M>) {
        let (now, life) = (self.now(), self.slots[to as usize].life);
        let at = self.links.arrival(now, from, to, &mut self.dice, &mut self.counts);
        self.agenda.at(at, StageEvent::Deliver { to, life, what });
    }
}
