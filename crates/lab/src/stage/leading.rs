//! Tenures of leaders, and the writes that a leader sends to the storage.

use super::{
    ProcessId, ProtocolMessage, STORAGE, Stage, StageTenure,
    run::micros,
    slot::{Delivery, StageEvent},
    storage::StorageWrite,
};
use crate::engine::TraceEvent;

impl<M: ProtocolMessage> Stage<M> {
    /// A leader's next write is due.
    pub(super) fn work(&mut self, process: ProcessId, tenure: u64) {
        if self.slots[process as usize].leads != Some(tenure) {
            return;
        }
        let mut may = true;
        self.act(process, 0, |actor, context| may = actor.may_write(context));
        let leads = self.slots[process as usize].leads == Some(tenure);
        if may && leads {
            let write =
                StorageWrite { writer: process, tenure, token: self.slots[process as usize].token };
            let (storage, name) = (self.storage_id(), self.names[process as usize].clone());
            let arrivals = self.travel(process, storage);
            let arriving: Vec<u64> = arrivals.iter().map(|at| micros(*at)).collect();
            self.trace_event(|| {
                let token = write.token.map_or("no token".into(), |token| format!("token {token}"));
                TraceEvent::new("write", format!("writes with {token}"))
                    .of(name)
                    .with("to", STORAGE)
                    .with("token", write.token)
                    .with("arrives", arriving)
            });
            for at in arrivals {
                let what =
                    StageEvent::Deliver { to: storage, life: 0, what: Delivery::Write(write) };
                self.agenda.at(at, what);
            }
        }
        if leads {
            self.work_later(process, tenure);
        }
    }

    pub(super) fn work_later(&mut self, process: ProcessId, tenure: u64) {
        let (now, interval) = (self.now(), self.work_interval);
        let slot = &self.slots[process as usize];
        let at = slot.clock.when(slot.clock.monotonic(now) + interval, now);
        let life = slot.life;
        self.agenda
            .at(at, StageEvent::Deliver { to: process, life, what: Delivery::Work { tenure } });
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
        self.trace_event(|| {
            let text = match (taken, highest) {
                (true, _) => format!("takes the write of {writer}"),
                (false, Some(highest)) => {
                    format!("refuses the write of {writer}: it has seen token {highest}")
                }
                (false, None) => format!("refuses the write of {writer}: it has no token"),
            };
            TraceEvent::new("written", text)
                .of(STORAGE)
                .with("from", writer)
                .with("token", write.token)
                .with("taken", taken)
                .with("highest", highest)
        });
        let life = self.slots[write.writer as usize].life;
        for at in self.travel(self.storage_id(), write.writer) {
            let what = Delivery::Written(taken);
            self.agenda.at(at, StageEvent::Deliver { to: write.writer, life, what });
        }
    }

    pub(super) fn take(&mut self, writer: ProcessId, tenure: u64) {
        self.record.look("one_writer");
        if self.ledger.take(tenure) {
            let name = &self.names[writer as usize];
            let how = format!("a write of {name} was taken after one of a later leader");
            self.breach("one_writer", how);
        }
    }

    pub(super) fn lead(&mut self, process: ProcessId, token: Option<u64>) {
        let now = self.now();
        self.end_tenure(process);
        let rounds = self.rounds;
        let tenure = self.ledger.begin(StageTenure {
            process,
            token,
            from: now,
            until: None,
            rounds,
            wrote: false,
        });
        let slot = &mut self.slots[process as usize];
        (slot.leads, slot.token) = (Some(tenure), token);
        slot.until = slot.stops_at();
        let (name, until) = (slot.name.clone(), slot.until);
        self.trace_event(|| {
            let with = token.map_or(String::new(), |token| format!(" with token {token}"));
            TraceEvent::new("lead", format!("leads{with}"))
                .of(name)
                .with("token", token)
                .with("until", until.map(micros))
        });
        self.check_token(process, token);
        self.count_believers();
        self.work_later(process, tenure);
    }

    pub(super) fn step_down(&mut self, process: ProcessId) {
        if self.slots[process as usize].leads.is_none() {
            return;
        }
        self.end_tenure(process);
        let slot = &self.slots[process as usize];
        let (name, token, until) = (slot.name.clone(), slot.token, slot.until);
        self.trace_event(|| {
            TraceEvent::new("step_down", "does not lead any more")
                .of(name)
                .with("token", token)
                .with("until", until.map(micros))
        });
        self.count_believers();
    }

    /// Traces a leader's deadline, if it has moved. Text traces have the line that says that it leads.
    pub(super) fn trace_deadline(&mut self, process: ProcessId) {
        let slot = &mut self.slots[process as usize];
        if !self.trace.is_drawn() || slot.leads.is_none() {
            return;
        }
        let Some(until) = slot.stops_at().filter(|until| slot.until != Some(*until)) else {
            return;
        };
        slot.until = Some(until);
        let (name, token) = (slot.name.clone(), slot.token);
        self.trace_event(|| {
            TraceEvent::new("believe", "may lead for longer")
                .of(name)
                .with("token", token)
                .with("until", micros(until))
        });
    }

    pub(super) fn end_tenure(&mut self, process: ProcessId) {
        let now = self.now();
        if let Some(tenure) = self.slots[process as usize].leads.take() {
            self.ledger.end(tenure, now);
        }
    }
}
