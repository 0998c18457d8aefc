//! Connections between processes, for algorithms that use them.
//!
//! The kernel of a process that ends closes its connections, and the other processes are told at once. They
//! are told nothing about a process that is paused or cut off.

use super::{
    ProcessId, ProtocolMessage, Stage,
    slot::{Delivery, StageEvent},
};

impl<M: ProtocolMessage> Stage<M> {
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
