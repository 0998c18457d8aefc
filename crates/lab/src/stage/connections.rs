//! Connections, for those who keep them: a process hears when another comes up, and when it ends.
//!
//! The kernel of a process that ends closes its connections, and the others hear of that at once; of one
//! that stands still, or is cut off, they hear nothing.

use super::{
    NodeId, Stage, Word,
    node::{Delivery, Happening},
};

impl<M: Word> Stage<M> {
    /// A process has started: it and all others that run hear of each other.
    pub(super) fn open_connections(&mut self, node: NodeId) {
        for other in self.peers_in_reach(node) {
            self.bring(other, node, Delivery::Opened(other));
            self.bring(node, other, Delivery::Opened(node));
        }
    }

    /// A process has ended: those in reach hear of it.
    pub(super) fn close_connections(&mut self, node: NodeId) {
        for other in self.peers_in_reach(node) {
            self.bring(node, other, Delivery::Closed(node));
        }
    }

    fn peers_in_reach(&self, node: NodeId) -> Vec<NodeId> {
        if !self.connections {
            return vec![];
        }
        let linked = |other| !self.links.is_cut(node, other) && !self.links.is_cut(other, node);
        self.everybody()
            .filter(|other| *other != node && self.nodes[*other as usize].up && linked(*other))
            .collect()
    }

    /// News of a connection cannot get lost.
    fn bring(&mut self, from: NodeId, to: NodeId, what: Delivery<M>) {
        let (now, life) = (self.now(), self.nodes[to as usize].life);
        let at = self.links.arrival(now, from, to, &mut self.dice, &mut self.counts);
        self.agenda.at(at, Happening::Deliver { to, life, what });
    }
}
