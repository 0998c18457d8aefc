//! Leading, and the work of whoever leads: it writes to the storage, every so often.

use super::{
    NodeId, STORAGE, Stage, Tenure, Word,
    apparatus::micros,
    node::{Delivery, Happening},
    storage::Write,
};
use crate::engine::Event;

impl<M: Word> Stage<M> {
    /// Whoever leads writes, every so often.
    pub(super) fn work(&mut self, node: NodeId, tenure: u64) {
        if self.nodes[node as usize].leads != Some(tenure) {
            return;
        }
        let mut may = true;
        self.act(node, 0, |program, scene| may = program.may_write(scene));
        let leads = self.nodes[node as usize].leads == Some(tenure);
        if may && leads {
            let write = Write { writer: node, tenure, token: self.nodes[node as usize].token };
            let (storage, name) = (self.storage_id(), self.names[node as usize].clone());
            let arrivals = self.travel(node, storage);
            let arriving: Vec<u64> = arrivals.iter().map(|at| micros(*at)).collect();
            self.tell(|| {
                let token = write.token.map_or("no token".into(), |token| format!("token {token}"));
                Event::new("write", format!("writes with {token}"))
                    .of(name)
                    .with("to", STORAGE)
                    .with("token", write.token)
                    .with("arrives", arriving)
            });
            for at in arrivals {
                let what =
                    Happening::Deliver { to: storage, life: 0, what: Delivery::Write(write) };
                self.agenda.at(at, what);
            }
        }
        if leads {
            self.work_later(node, tenure);
        }
    }

    pub(super) fn work_later(&mut self, node: NodeId, tenure: u64) {
        let (now, interval) = (self.now(), self.work_interval);
        let slot = &self.nodes[node as usize];
        let at = slot.clock.when(slot.clock.monotonic(now) + interval, now);
        let life = slot.life;
        self.agenda.at(at, Happening::Deliver { to: node, life, what: Delivery::Work { tenure } });
    }

    pub(super) fn reach_storage(&mut self, what: Delivery<M>) {
        let Delivery::Write(write) = what else { return };
        let taken = self.storage.admits(write);
        if taken {
            self.take(write.writer, write.tenure);
        } else {
            self.ledger.writes_refused += 1;
        }
        let (writer, highest) = (self.names[write.writer as usize].clone(), self.storage.highest());
        self.tell(|| {
            let text = match (taken, highest) {
                (true, _) => format!("takes the write of {writer}"),
                (false, Some(highest)) => {
                    format!("refuses the write of {writer}: it has seen token {highest}")
                }
                (false, None) => format!("refuses the write of {writer}: it has no token"),
            };
            Event::new("written", text)
                .of(STORAGE)
                .with("from", writer)
                .with("token", write.token)
                .with("taken", taken)
                .with("highest", highest)
        });
        let life = self.nodes[write.writer as usize].life;
        for at in self.travel(self.storage_id(), write.writer) {
            let what = Delivery::Written(taken);
            self.agenda.at(at, Happening::Deliver { to: write.writer, life, what });
        }
    }

    pub(super) fn take(&mut self, writer: NodeId, tenure: u64) {
        self.record.look("one_writer");
        if self.ledger.take(tenure) {
            let name = &self.names[writer as usize];
            let how = format!("a write of {name} was taken after one of a later leader");
            self.breach("one_writer", how);
        }
    }

    pub(super) fn lead(&mut self, node: NodeId, token: Option<u64>) {
        let now = self.now();
        self.end_tenure(node);
        let rounds = self.rounds;
        let tenure = self.ledger.begin(Tenure {
            who: node,
            token,
            from: now,
            until: None,
            rounds,
            wrote: false,
        });
        let slot = &mut self.nodes[node as usize];
        (slot.leads, slot.token) = (Some(tenure), token);
        slot.until = slot.stops_at();
        let (name, until) = (slot.name.clone(), slot.until);
        self.tell(|| {
            let with = token.map_or(String::new(), |token| format!(" with token {token}"));
            Event::new("lead", format!("leads{with}"))
                .of(name)
                .with("token", token)
                .with("until", until.map(micros))
        });
        self.judge_token(node, token);
        self.count_believers();
        self.work_later(node, tenure);
    }

    pub(super) fn step_down(&mut self, node: NodeId) {
        if self.nodes[node as usize].leads.is_none() {
            return;
        }
        self.end_tenure(node);
        let slot = &self.nodes[node as usize];
        let (name, token, until) = (slot.name.clone(), slot.token, slot.until);
        self.tell(|| {
            Event::new("step_down", "does not lead any more")
                .of(name)
                .with("token", token)
                .with("until", until.map(micros))
        });
        self.count_believers();
    }

    /// Tells until when a leader believes, if that has moved. People have read that it leads.
    pub(super) fn tell_until(&mut self, node: NodeId) {
        let slot = &mut self.nodes[node as usize];
        if !self.trace.is_drawn() || slot.leads.is_none() {
            return;
        }
        let Some(until) = slot.stops_at().filter(|until| slot.until != Some(*until)) else {
            return;
        };
        slot.until = Some(until);
        let (name, token) = (slot.name.clone(), slot.token);
        self.tell(|| {
            Event::new("believe", "may lead for longer")
                .of(name)
                .with("token", token)
                .with("until", micros(until))
        });
    }

    pub(super) fn end_tenure(&mut self, node: NodeId) {
        let now = self.now();
        if let Some(tenure) = self.nodes[node as usize].leads.take() {
            self.ledger.end(tenure, now);
        }
    }
}
