//! The stage: it takes one event after the other from its agenda.

use std::time::Duration;

use serde_json::json;
use tenure_replica::Moment;

use super::{
    Actor, Context, Ledger, ProcessId, ProcessView, ProtocolMessage, StorageGate,
    actor::Effect,
    adversary::Adversary,
    promise::PromiseRecord,
    slot::{Delivery, Slot, StageEvent},
    storage::SharedStorage,
};
use crate::{
    engine::{Agenda, Dice, Links, RunCounts, SimClock, Trace, TraceEvent, ms},
    faults::FaultHost,
};

/// How often a leader writes, unless an algorithm sets another interval.
const WORK_INTERVAL: Duration = ms(100);

/// The processes of an algorithm, the network between them, and the storage that leaders write to.
pub struct Stage<M: ProtocolMessage> {
    pub trace: Trace,
    pub links: Links,
    pub dice: Dice,
    pub ledger: Ledger,
    pub counts: RunCounts,
    /// How often a leader writes.
    pub work_interval: Duration,
    /// Whether processes are told when another starts or ends, as over open connections.
    pub connections: bool,
    pub(super) adversary: Option<Adversary<M>>,
    pub(super) agenda: Agenda<StageEvent<M>>,
    pub(super) slots: Vec<Slot<M>>,
    pub(super) names: Vec<String>,
    pub(super) contenders: usize,
    pub(super) storage: SharedStorage,
    messages: u64,
    /// How many messages in a row led to the event that is being handled.
    pub(super) rounds: u32,
    pub(super) record: PromiseRecord,
}

impl<M: ProtocolMessage> Stage<M> {
    /// A stage without processes, whose storage checks tokens or does not.
    pub fn new(seed: u64, gate: StorageGate) -> Stage<M> {
        Stage {
            trace: Trace::from_environment(),
            links: Links::default(),
            dice: Dice::new(seed),
            ledger: Ledger::default(),
            counts: RunCounts::default(),
            work_interval: WORK_INTERVAL,
            connections: false,
            adversary: None,
            agenda: Agenda::default(),
            slots: vec![],
            names: vec![],
            contenders: 0,
            storage: SharedStorage::new(gate),
            messages: 0,
            rounds: 0,
            record: PromiseRecord::default(),
        }
    }

    /// Adds a process that may lead: `a`, `b`, `c` … All contenders are added before all servers.
    pub fn add_contender(&mut self, actor: impl Actor<M> + 'static) -> ProcessId {
        assert_eq!(self.contenders, self.slots.len(), "contenders come first");
        let at = self.contenders;
        self.contenders += 1;
        let name = match at {
            0..26 => char::from(b'a' + at as u8).to_string(),
            _ => format!("n{at}"),
        };
        self.add_process(name, actor)
    }

    /// Adds a process that serves the contenders.
    pub fn add_server(&mut self, name: &str, actor: impl Actor<M> + 'static) -> ProcessId {
        self.add_process(name.into(), actor)
    }

    fn add_process(&mut self, name: String, actor: impl Actor<M> + 'static) -> ProcessId {
        let number = self.slots.len() as ProcessId;
        // No clock is exact.
        let clock = SimClock::new(self.dice.below(201) as i64 - 100, Duration::ZERO);
        self.slots.push(Slot::new(name.clone(), Box::new(actor), clock));
        self.names.push(name);
        self.agenda.after(Duration::ZERO, StageEvent::Start(number));
        number
    }

    /// The storage's number is the one after the last process.
    pub(super) fn storage_id(&self) -> ProcessId {
        self.slots.len() as ProcessId
    }

    pub fn now(&self) -> Moment {
        self.agenda.now()
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub fn contenders(&self) -> usize {
        self.contenders
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = ProcessId> + use<M> {
        0..self.slots.len() as ProcessId
    }

    pub(super) fn slot_mut(&mut self, process: ProcessId) -> &mut Slot<M> {
        &mut self.slots[process as usize]
    }

    /// The processes that act as leaders.
    pub fn leaders(&self) -> Vec<ProcessId> {
        self.processes().filter(|process| self.slots[*process as usize].believes()).collect()
    }

    pub fn view(&self, of: ProcessId) -> ProcessView {
        self.slots[of as usize].traced.clone()
    }

    /// Whether all running contenders know the same leader, which believes to lead as well.
    pub(super) fn is_known(&mut self) -> bool {
        let [leader] = self.leaders()[..] else { return false };
        let knows = |process: &Slot<M>| !process.runs() || process.traced.leader == Some(leader);
        self.slots[..self.contenders]
            .iter()
            .all(|process| process.leads.is_some() || knows(process))
    }

    pub fn mark(&mut self) {
        self.ledger.mark(self.agenda.now());
    }

    /// Runs for this long.
    pub fn run(&mut self, duration: Duration) {
        let until = self.now() + duration;
        while self.step(until) {}
        self.agenda.pass(until);
        self.ledger.pass(until);
    }

    /// Runs until `done` is true; false if that takes longer than `limit`.
    pub fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&mut Stage<M>) -> bool,
    ) -> bool {
        let until = self.now() + limit;
        while !done(self) {
            if !self.step(until) {
                self.agenda.pass(until);
                self.ledger.pass(until);
                return done(self);
            }
        }
        true
    }

    fn step(&mut self, until: Moment) -> bool {
        let Some(what) = self.agenda.next(until) else { return false };
        self.trace.number(self.now().since_start().as_micros() as u64);
        match what {
            StageEvent::Deliver { to, life, what } => self.reach(to, life, what),
            StageEvent::Start(process) => self.start(process),
            StageEvent::Resume(process, life) => self.resume(process, life),
            StageEvent::Inject(step) => self.inject_step(&step),
            StageEvent::Undo(undo) => self.undo(undo),
        }
        true
    }

    pub(super) fn trace_event(&mut self, event: impl FnOnce() -> TraceEvent) {
        self.trace.event(self.agenda.now(), event);
    }

    fn trace_of(&mut self, process: ProcessId, event: impl FnOnce() -> TraceEvent) {
        let (now, name) = (self.agenda.now(), &self.names[process as usize]);
        self.trace.event(now, || event().of(name));
    }

    fn reach(&mut self, to: ProcessId, life: u64, what: Delivery<M>) {
        if to == self.storage_id() {
            return self.reach_storage(what);
        }
        let process = &mut self.slots[to as usize];
        if !process.up || process.life != life {
            return;
        }
        if process.pauses > 0 {
            process.waiting.push(what);
            return;
        }
        self.deliver(to, what);
    }

    pub(super) fn deliver(&mut self, to: ProcessId, what: Delivery<M>) {
        match what {
            Delivery::Message { from, number, message, rounds } => {
                let (name, sender) =
                    (self.names[to as usize].clone(), self.names[from as usize].clone());
                self.trace_event(|| {
                    TraceEvent::new("receive", format!("hears from {sender}: {message}"))
                        .of(name)
                        .with("from", sender)
                        .with("message", number)
                });
                self.act(to, rounds, |actor, context| actor.receive(from, message, context));
            }
            Delivery::Alarm { name, ticket } => {
                let slot = &mut self.slots[to as usize];
                if slot.alarms.get(name).is_none_or(|(rings, _)| *rings != ticket) {
                    return;
                }
                slot.alarms.remove(name);
                // The trace has had its due time; a process that was paused handles it later.
                if self.trace.is_drawn() {
                    self.trace_of(to, || {
                        TraceEvent::new("ring", format!("hears its {name} alarm"))
                            .with("name", name)
                    });
                }
                self.act(to, 0, |actor, context| actor.ring(name, context));
            }
            Delivery::Work { tenure } => self.work(to, tenure),
            Delivery::Written(taken) => {
                self.act(to, 0, |actor, context| actor.written(taken, context));
            }
            Delivery::Opened(peer) => {
                self.act(to, 0, |actor, context| actor.opened(peer, context));
            }
            Delivery::Closed(peer) => {
                self.act(to, 0, |actor, context| actor.closed(peer, context));
            }
            Delivery::Write(_) => unreachable!("only the storage is written to"),
        }
    }

    /// When a message arrives: never, once, or twice.
    pub(super) fn travel(&mut self, from: ProcessId, to: ProcessId) -> Vec<Moment> {
        let now = self.now();
        let slow = |process: ProcessId| {
            self.slots.get(process as usize).map_or(Duration::ZERO, |n| n.slow)
        };
        let slow = slow(from) + slow(to);
        let arrivals = self.links.arrivals(now, from, to, &mut self.dice, &mut self.counts);
        arrivals.into_iter().map(|at| at + slow).collect()
    }

    /// Lets an actor handle an event, and performs its effects.
    pub(super) fn act(
        &mut self,
        process: ProcessId,
        rounds: u32,
        act: impl FnOnce(&mut dyn Actor<M>, &mut Context<'_, M>),
    ) {
        let now = self.now();
        let slot = &mut self.slots[process as usize];
        let mut context = Context {
            me: process,
            now: slot.clock.monotonic(now),
            wall: slot.clock.wall(now),
            names: &self.names,
            contenders: self.contenders,
            tenure: slot.leads.unwrap_or(0),
            dice: &mut self.dice,
            effects: vec![],
        };
        act(&mut *slot.actor, &mut context);
        let effects = context.effects;
        self.rounds = rounds;
        for effect in effects {
            self.perform(process, effect);
        }
        self.trace_view(process);
        self.trace_deadline(process);
        self.trace_elections(process);
    }

    fn perform(&mut self, process: ProcessId, effect: Effect<M>) {
        match effect {
            Effect::Send(to, message) => self.send(process, to, &message),
            Effect::Alarm(name, after) => self.set_alarm(process, name, after),
            Effect::Cancel(name) => {
                let slot = &mut self.slots[process as usize];
                if slot.alarms.remove(name).is_some() {
                    self.trace_of(process, || {
                        TraceEvent::new("cancel", format!("cancels its {name} alarm"))
                            .with("name", name)
                    });
                }
            }
            Effect::Lead(token) => self.lead(process, token),
            Effect::StepDown => self.step_down(process),
            Effect::Detect => {
                let now = self.now();
                self.ledger.detected.get_or_insert(now);
            }
            Effect::Say(text) => self.trace_of(process, || TraceEvent::new("say", text)),
            Effect::Restart(who) => self.start(who),
            Effect::Take { writer, tenure } => self.take(writer, tenure),
            Effect::Refuse => self.ledger.writes_refused += 1,
            Effect::Kept(promise) => self.record.look(promise),
            Effect::Broke(promise, how) => {
                self.record.look(promise);
                self.breach(promise, how);
            }
        }
    }

    fn send(&mut self, from: ProcessId, to: ProcessId, message: &M) {
        self.messages += 1;
        let number = self.messages;
        let kinds =
            if message.is_routine() { &mut self.ledger.routine } else { &mut self.ledger.messages };
        *kinds.entry(message.kind()).or_default() += 1;
        let added = self.added_delay(from, to, message);
        let arrivals = self.travel(from, to).into_iter().map(|at| at + added);
        let arrivals: Vec<Moment> = arrivals.collect();
        self.ledger.lost += u64::from(arrivals.is_empty());
        self.trace.number(from << 32 | to << 8 | arrivals.len() as u64);
        let (name, other) = (self.names[from as usize].clone(), self.names[to as usize].clone());
        let arriving: Vec<u64> = arrivals.iter().map(|at| micros(*at)).collect();
        self.trace_event(|| {
            let lost = if arriving.is_empty() { " (lost)" } else { "" };
            TraceEvent::new("send", format!("says to {other}: {message}{lost}"))
                .of(name)
                .with("to", other)
                .with("message", number)
                .with("kind", message.kind())
                .with("routine", message.is_routine())
                .with("arrives", arriving)
        });
        let (life, rounds) = (self.slots[to as usize].life, self.rounds + 1);
        for at in arrivals {
            let what = Delivery::Message { from, number, message: message.clone(), rounds };
            self.agenda.at(at, StageEvent::Deliver { to, life, what });
        }
    }

    fn set_alarm(&mut self, process: ProcessId, name: &'static str, after: Duration) {
        self.messages += 1;
        let (now, ticket) = (self.now(), self.messages);
        let slot = &mut self.slots[process as usize];
        let at = slot.clock.when(slot.clock.monotonic(now) + after, now) + slot.slow;
        slot.alarms.insert(name, (ticket, at));
        let life = slot.life;
        let who = slot.name.clone();
        self.trace_event(|| {
            let after = crate::faults::write_span(after);
            TraceEvent::new("timer", format!("sets its {name} alarm, {after}"))
                .of(who)
                .with("name", name)
                .with("due", micros(at))
        });
        let what = Delivery::Alarm { name, ticket };
        self.agenda.at(at, StageEvent::Deliver { to: process, life, what });
    }

    /// Traces the state of a process, if it has changed.
    fn trace_view(&mut self, process: ProcessId) {
        let view = self.slots[process as usize].actor.view();
        self.check_term(process, &view);
        let slot = &mut self.slots[process as usize];
        if slot.traced == view {
            return;
        }
        slot.traced = view.clone();
        let names = self.names.clone();
        let name = move |of: ProcessId| names.get(of as usize).cloned().unwrap_or_default();
        let who = self.names[process as usize].clone();
        self.trace_event(|| {
            TraceEvent::new("state", view.text(&name)).of(who).with("state", view.json(&name))
        });
    }

    /// Traces the elections and leases that a process keeps, if they have changed.
    fn trace_elections(&mut self, process: ProcessId) {
        if !self.trace.is_read() {
            return;
        }
        let slot = &mut self.slots[process as usize];
        let Some((text, elections)) = slot.actor.elections() else { return };
        if slot.elections.as_ref() != Some(&elections) {
            slot.elections = Some(elections.clone());
            self.trace_of(process, || TraceEvent::new("elections", text).with("state", elections));
        }
    }
}

pub(super) fn micros(at: Moment) -> u64 {
    at.since_start().as_micros() as u64
}

impl<M: ProtocolMessage> std::fmt::Debug for Stage<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = json!(self.names);
        write!(f, "Stage({names} at {:?})", self.now().since_start())
    }
}
