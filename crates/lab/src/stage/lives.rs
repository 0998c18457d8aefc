//! Processes begin, end, stand still and go on.

use std::time::Duration;

use super::{NodeId, Stage, Word, node::Happening};
use crate::engine::Event;

impl<M: Word> Stage<M> {
    pub(super) fn start(&mut self, node: NodeId) {
        let slot = &mut self.nodes[node as usize];
        if slot.up {
            return;
        }
        slot.life += u64::from(slot.started);
        (slot.up, slot.started) = (true, true);
        slot.pauses = 0;
        slot.waiting.clear();
        slot.alarms.clear();
        slot.lines = None;
        let (name, contends) = (slot.name.clone(), (node as usize) < self.contenders);
        self.tell(|| Event::new("start", "starts").of(name).with("contends", contends));
        self.act(node, 0, |program, scene| program.start(scene));
        self.open_connections(node);
    }

    pub(super) fn crash(&mut self, node: NodeId) {
        if !self.nodes[node as usize].up {
            return;
        }
        self.end_tenure(node);
        let slot = &mut self.nodes[node as usize];
        slot.up = false;
        slot.waiting.clear();
        let name = slot.name.clone();
        self.tell(|| Event::new("crash", "is dead").of(name));
        self.close_connections(node);
        self.count_believers();
    }

    pub(super) fn pause(&mut self, node: NodeId, lasts: Option<Duration>) {
        let slot = &mut self.nodes[node as usize];
        if !slot.up {
            return;
        }
        slot.pauses += 1;
        let (name, life) = (slot.name.clone(), slot.life);
        self.tell(|| Event::new("pause", "stands still").of(name));
        self.count_believers();
        if let Some(lasts) = lasts {
            self.agenda.after(lasts, Happening::Resume(node, life));
        }
    }

    pub(super) fn resume(&mut self, node: NodeId, life: u64) {
        let slot = &mut self.nodes[node as usize];
        if !slot.up || slot.life != life || slot.pauses == 0 {
            return;
        }
        slot.pauses -= 1;
        if slot.pauses > 0 {
            return;
        }
        let (name, waiting) = (slot.name.clone(), std::mem::take(&mut slot.waiting));
        self.tell(|| Event::new("resume", "goes on").of(name));
        self.count_believers();
        for what in waiting {
            self.deliver(node, what);
        }
    }
}
