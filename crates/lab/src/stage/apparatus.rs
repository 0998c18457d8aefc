//! The stage itself: one agenda, one event after the other.

use std::time::Duration;

use serde_json::json;
use tenure_replica::Moment;

use super::{
    Gate, Ledger, NodeId, Program, Scene, View, Word,
    adversary::Adversary,
    judge::Record,
    node::{Delivery, Happening, Node},
    program::Wish,
    storage::Storage,
};
use crate::{
    engine::{Agenda, Clock, Counts, Dice, Event, Links, Trace, ms},
    faults::Step,
};

/// How often a leader writes, if nothing else is said.
const WORK_INTERVAL: Duration = ms(100);

/// A cast of processes, the network between them, and the storage that leaders write to.
pub struct Stage<M: Word> {
    pub trace: Trace,
    pub links: Links,
    pub dice: Dice,
    pub ledger: Ledger,
    pub counts: Counts,
    /// How often a leader writes.
    pub work_interval: Duration,
    /// Processes hear of each other's beginning and end, as those do that keep connections.
    pub connections: bool,
    pub(super) adversary: Option<Adversary<M>>,
    pub(super) agenda: Agenda<Happening<M>>,
    pub(super) nodes: Vec<Node<M>>,
    pub(super) names: Vec<String>,
    pub(super) script: Vec<Step>,
    pub(super) contenders: usize,
    pub(super) storage: Storage,
    messages: u64,
    /// How many messages in a row led to what happens now.
    pub(super) rounds: u32,
    pub(super) record: Record,
}

impl<M: Word> Stage<M> {
    /// An empty stage before a storage that checks tokens, or not.
    pub fn new(seed: u64, gate: Gate) -> Stage<M> {
        Stage {
            trace: Trace::from_environment(),
            links: Links::default(),
            dice: Dice::new(seed),
            ledger: Ledger::default(),
            counts: Counts::default(),
            work_interval: WORK_INTERVAL,
            connections: false,
            adversary: None,
            agenda: Agenda::default(),
            nodes: vec![],
            names: vec![],
            script: vec![],
            contenders: 0,
            storage: Storage::new(gate),
            messages: 0,
            rounds: 0,
            record: Record::default(),
        }
    }

    /// Somebody who may lead comes on: `a`, `b`, `c` … All contenders come before all others.
    pub fn contender(&mut self, program: impl Program<M> + 'static) -> NodeId {
        assert_eq!(self.contenders, self.nodes.len(), "contenders come first");
        let at = self.contenders;
        self.contenders += 1;
        let name = match at {
            0..26 => char::from(b'a' + at as u8).to_string(),
            _ => format!("n{at}"),
        };
        self.cast(name, program)
    }

    /// Somebody comes on who serves the others.
    pub fn server(&mut self, name: &str, program: impl Program<M> + 'static) -> NodeId {
        self.cast(name.into(), program)
    }

    fn cast(&mut self, name: String, program: impl Program<M> + 'static) -> NodeId {
        let number = self.nodes.len() as NodeId;
        // Nobody's clock is quite right.
        let clock = Clock::new(self.dice.below(201) as i64 - 100, Duration::ZERO);
        self.nodes.push(Node::new(name.clone(), Box::new(program), clock));
        self.names.push(name);
        self.agenda.after(Duration::ZERO, Happening::Start(number));
        number
    }

    /// The storage has the number after the last.
    pub(super) fn storage_id(&self) -> NodeId {
        self.nodes.len() as NodeId
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

    pub(super) fn everybody(&self) -> impl Iterator<Item = NodeId> + use<M> {
        0..self.nodes.len() as NodeId
    }

    pub(super) fn node_mut(&mut self, node: NodeId) -> &mut Node<M> {
        &mut self.nodes[node as usize]
    }

    /// Who acts as a leader.
    pub fn leaders(&self) -> Vec<NodeId> {
        self.everybody().filter(|node| self.nodes[*node as usize].believes()).collect()
    }

    pub fn view(&self, of: NodeId) -> View {
        self.nodes[of as usize].shown.clone()
    }

    /// All contenders that run take the same one for the leader, who does so too.
    pub(super) fn is_known(&mut self) -> bool {
        let [leader] = self.leaders()[..] else { return false };
        let knows = |node: &Node<M>| !node.runs() || node.shown.leader == Some(leader);
        self.nodes[..self.contenders].iter().all(|node| node.leads.is_some() || knows(node))
    }

    pub fn mark(&mut self) {
        self.ledger.mark(self.agenda.now());
    }

    /// Lets so much time pass.
    pub fn run(&mut self, duration: Duration) {
        let until = self.now() + duration;
        while self.step(until) {}
        self.agenda.pass(until);
        self.ledger.pass(until);
    }

    /// Lets time pass until something is true; false if that takes too long.
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
            Happening::Deliver { to, life, what } => self.reach(to, life, what),
            Happening::Start(node) => self.start(node),
            Happening::Resume(node, life) => self.resume(node, life),
            Happening::Blow(at) => self.blow(at),
            Happening::Undo(undo) => self.undo(undo),
        }
        true
    }

    pub(super) fn tell(&mut self, event: impl FnOnce() -> Event) {
        self.trace.event(self.agenda.now(), event);
    }

    fn tell_of(&mut self, node: NodeId, event: impl FnOnce() -> Event) {
        let (now, name) = (self.agenda.now(), &self.names[node as usize]);
        self.trace.event(now, || event().of(name));
    }

    fn reach(&mut self, to: NodeId, life: u64, what: Delivery<M>) {
        if to == self.storage_id() {
            return self.reach_storage(what);
        }
        let node = &mut self.nodes[to as usize];
        if !node.up || node.life != life {
            return;
        }
        if node.pauses > 0 {
            node.waiting.push(what);
            return;
        }
        self.deliver(to, what);
    }

    pub(super) fn deliver(&mut self, to: NodeId, what: Delivery<M>) {
        match what {
            Delivery::Word { from, number, word, rounds } => {
                let (name, sender) =
                    (self.names[to as usize].clone(), self.names[from as usize].clone());
                self.tell(|| {
                    Event::new("receive", format!("hears from {sender}: {word}"))
                        .of(name)
                        .with("from", sender)
                        .with("message", number)
                });
                self.act(to, rounds, |program, scene| program.receive(from, word, scene));
            }
            Delivery::Alarm { name, ticket } => {
                let slot = &mut self.nodes[to as usize];
                if slot.alarms.get(name).is_none_or(|(rings, _)| *rings != ticket) {
                    return;
                }
                slot.alarms.remove(name);
                // It was told when it would; but who stood still hears it later.
                if self.trace.is_drawn() {
                    self.tell_of(to, || {
                        Event::new("ring", format!("hears its {name} alarm")).with("name", name)
                    });
                }
                self.act(to, 0, |program, scene| program.ring(name, scene));
            }
            Delivery::Work { tenure } => self.work(to, tenure),
            Delivery::Written(taken) => {
                self.act(to, 0, |program, scene| program.written(taken, scene));
            }
            Delivery::Opened(peer) => {
                self.act(to, 0, |program, scene| program.opened(peer, scene));
            }
            Delivery::Closed(peer) => {
                self.act(to, 0, |program, scene| program.closed(peer, scene));
            }
            Delivery::Write(_) => unreachable!("only the storage is written to"),
        }
    }

    /// When what is sent arrives, and how often.
    pub(super) fn travel(&mut self, from: NodeId, to: NodeId) -> Vec<Moment> {
        let now = self.now();
        let slow = |node: NodeId| self.nodes.get(node as usize).map_or(Duration::ZERO, |n| n.slow);
        let slow = slow(from) + slow(to);
        let arrivals = self.links.arrivals(now, from, to, &mut self.dice, &mut self.counts);
        arrivals.into_iter().map(|at| at + slow).collect()
    }

    /// A process acts, and what it wants is done.
    pub(super) fn act(
        &mut self,
        node: NodeId,
        rounds: u32,
        act: impl FnOnce(&mut dyn Program<M>, &mut Scene<'_, M>),
    ) {
        let now = self.now();
        let slot = &mut self.nodes[node as usize];
        let mut scene = Scene {
            me: node,
            now: slot.clock.monotonic(now),
            wall: slot.clock.wall(now),
            names: &self.names,
            contenders: self.contenders,
            tenure: slot.leads.unwrap_or(0),
            dice: &mut self.dice,
            wishes: vec![],
        };
        act(&mut *slot.program, &mut scene);
        let wishes = scene.wishes;
        self.rounds = rounds;
        for wish in wishes {
            self.fulfil(node, wish);
        }
        self.show(node);
        self.tell_until(node);
        self.tell_lines(node);
    }

    fn fulfil(&mut self, node: NodeId, wish: Wish<M>) {
        match wish {
            Wish::Send(to, word) => self.send(node, to, &word),
            Wish::Alarm(name, after) => self.set_alarm(node, name, after),
            Wish::Cancel(name) => {
                let slot = &mut self.nodes[node as usize];
                if slot.alarms.remove(name).is_some() {
                    self.tell_of(node, || {
                        Event::new("cancel", format!("cancels its {name} alarm")).with("name", name)
                    });
                }
            }
            Wish::Lead(token) => self.lead(node, token),
            Wish::StepDown => self.step_down(node),
            Wish::Detect => {
                let now = self.now();
                self.ledger.detected.get_or_insert(now);
            }
            Wish::Say(text) => self.tell_of(node, || Event::new("say", text)),
            Wish::Restart(who) => self.start(who),
            Wish::Take { writer, tenure } => self.take(writer, tenure),
            Wish::Refuse => self.ledger.writes_refused += 1,
            Wish::Kept(promise) => self.record.look(promise),
            Wish::Broke(promise, how) => {
                self.record.look(promise);
                self.breach(promise, how);
            }
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, word: &M) {
        self.messages += 1;
        let number = self.messages;
        let kinds =
            if word.is_routine() { &mut self.ledger.routine } else { &mut self.ledger.words };
        *kinds.entry(word.kind()).or_default() += 1;
        let held_up = self.hold_up(from, to, word);
        let arrivals = self.travel(from, to).into_iter().map(|at| at + held_up);
        let arrivals: Vec<Moment> = arrivals.collect();
        self.ledger.lost += u64::from(arrivals.is_empty());
        self.trace.number(from << 32 | to << 8 | arrivals.len() as u64);
        let (name, other) = (self.names[from as usize].clone(), self.names[to as usize].clone());
        let arriving: Vec<u64> = arrivals.iter().map(|at| micros(*at)).collect();
        self.tell(|| {
            let lost = if arriving.is_empty() { " (lost)" } else { "" };
            Event::new("send", format!("says to {other}: {word}{lost}"))
                .of(name)
                .with("to", other)
                .with("message", number)
                .with("kind", word.kind())
                .with("arrives", arriving)
        });
        let (life, rounds) = (self.nodes[to as usize].life, self.rounds + 1);
        for at in arrivals {
            let what = Delivery::Word { from, number, word: word.clone(), rounds };
            self.agenda.at(at, Happening::Deliver { to, life, what });
        }
    }

    fn set_alarm(&mut self, node: NodeId, name: &'static str, after: Duration) {
        self.messages += 1;
        let (now, ticket) = (self.now(), self.messages);
        let slot = &mut self.nodes[node as usize];
        let at = slot.clock.when(slot.clock.monotonic(now) + after, now) + slot.slow;
        slot.alarms.insert(name, (ticket, at));
        let life = slot.life;
        let who = slot.name.clone();
        self.tell(|| {
            let after = crate::faults::write_span(after);
            Event::new("timer", format!("sets its {name} alarm, {after}"))
                .of(who)
                .with("name", name)
                .with("due", micros(at))
        });
        let what = Delivery::Alarm { name, ticket };
        self.agenda.at(at, Happening::Deliver { to: node, life, what });
    }

    /// Tells what a process looks like, if that has changed.
    fn show(&mut self, node: NodeId) {
        let view = self.nodes[node as usize].program.view();
        self.judge_term(node, &view);
        let slot = &mut self.nodes[node as usize];
        if slot.shown == view {
            return;
        }
        slot.shown = view.clone();
        let names = self.names.clone();
        let name = move |of: NodeId| names.get(of as usize).cloned().unwrap_or_default();
        let who = self.names[node as usize].clone();
        self.tell(|| Event::new("state", view.text(&name)).of(who).with("state", view.json(&name)));
    }

    /// Tells what lines and leases a process keeps, if that has changed.
    fn tell_lines(&mut self, node: NodeId) {
        if !self.trace.is_read() {
            return;
        }
        let slot = &mut self.nodes[node as usize];
        let Some((text, lines)) = slot.program.lines() else { return };
        if slot.lines.as_ref() != Some(&lines) {
            slot.lines = Some(lines.clone());
            self.tell_of(node, || Event::new("lines", text).with("state", lines));
        }
    }
}

pub(super) fn micros(at: Moment) -> u64 {
    at.since_start().as_micros() as u64
}

impl<M: Word> std::fmt::Debug for Stage<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = json!(self.names);
        write!(f, "Stage({names} at {:?})", self.now().since_start())
    }
}
