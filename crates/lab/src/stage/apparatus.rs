//! The stage itself: one agenda, one event after the other.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use tenure_replica::Moment;

use super::{
    Gate, Ledger, NodeId, Part, Program, Promise, STORAGE, Scene, Tenure, Verdict, View, Word,
    adversary::Adversary,
    node::{Delivery, Happening, Node},
    program::Wish,
    storage::{Storage, Write},
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
    contenders: usize,
    storage: Storage,
    messages: u64,
    /// How many messages in a row led to what happens now.
    rounds: u32,
    /// Which terms were led by whom, and what was broken.
    by_term: BTreeMap<u64, NodeId>,
    token_highest: Option<u64>,
    judged: BTreeMap<&'static str, u64>,
    breaches: BTreeMap<&'static str, (Moment, String)>,
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
            by_term: BTreeMap::new(),
            token_highest: None,
            judged: BTreeMap::new(),
            breaches: BTreeMap::new(),
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

    fn deliver(&mut self, to: NodeId, what: Delivery<M>) {
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
                if self.nodes[to as usize].alarms.get(name) != Some(&ticket) {
                    return;
                }
                self.nodes[to as usize].alarms.remove(name);
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

    /// Whoever leads writes, every so often.
    fn work(&mut self, node: NodeId, tenure: u64) {
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

    fn work_later(&mut self, node: NodeId, tenure: u64) {
        let (now, interval) = (self.now(), self.work_interval);
        let slot = &self.nodes[node as usize];
        let at = slot.clock.when(slot.clock.monotonic(now) + interval, now);
        let life = slot.life;
        self.agenda.at(at, Happening::Deliver { to: node, life, what: Delivery::Work { tenure } });
    }

    fn reach_storage(&mut self, what: Delivery<M>) {
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

    fn take(&mut self, writer: NodeId, tenure: u64) {
        *self.judged.entry("one_writer").or_default() += 1;
        if self.ledger.take(tenure) {
            let name = &self.names[writer as usize];
            let how = format!("a write of {name} was taken after one of a later leader");
            self.breach("one_writer", how);
        }
    }

    /// When what is sent arrives, and how often.
    fn travel(&mut self, from: NodeId, to: NodeId) -> Vec<Moment> {
        let now = self.now();
        let slow = |node: NodeId| self.nodes.get(node as usize).map_or(Duration::ZERO, |n| n.slow);
        let slow = slow(from) + slow(to);
        let arrivals = self.links.arrivals(now, from, to, &mut self.dice, &mut self.counts);
        arrivals.into_iter().map(|at| at + slow).collect()
    }

    /// A process acts, and what it wants is done.
    fn act(
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
    }

    fn fulfil(&mut self, node: NodeId, wish: Wish<M>) {
        match wish {
            Wish::Send(to, word) => self.send(node, to, &word),
            Wish::Alarm(name, after) => self.set_alarm(node, name, after),
            Wish::Cancel(name) => {
                self.nodes[node as usize].alarms.remove(name);
            }
            Wish::Lead(token) => self.lead(node, token),
            Wish::StepDown => self.step_down(node),
            Wish::Detect => {
                let now = self.now();
                self.ledger.detected.get_or_insert(now);
            }
            Wish::Say(text) => {
                let name = self.names[node as usize].clone();
                self.tell(|| Event::new("say", text).of(name));
            }
            Wish::Restart(who) => self.start(who),
            Wish::Take { writer, tenure } => self.take(writer, tenure),
            Wish::Refuse => self.ledger.writes_refused += 1,
            Wish::Kept(promise) => *self.judged.entry(promise).or_default() += 1,
            Wish::Broke(promise, how) => {
                *self.judged.entry(promise).or_default() += 1;
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
        slot.alarms.insert(name, ticket);
        let at = slot.clock.when(slot.clock.monotonic(now) + after, now) + slot.slow;
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

    fn lead(&mut self, node: NodeId, token: Option<u64>) {
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
        let name = slot.name.clone();
        self.tell(|| {
            let with = token.map_or(String::new(), |token| format!(" with token {token}"));
            Event::new("lead", format!("leads{with}")).of(name).with("token", token)
        });
        self.judge_token(node, token);
        self.count_believers();
        self.work_later(node, tenure);
    }

    fn judge_token(&mut self, node: NodeId, token: Option<u64>) {
        if token.is_none() {
            return;
        }
        *self.judged.entry("tokens_grow").or_default() += 1;
        if token <= self.token_highest {
            let (name, highest) = (&self.names[node as usize], self.token_highest);
            let how = format!("{name} leads with token {token:?} after {highest:?}");
            self.breach("tokens_grow", how);
        }
        self.token_highest = self.token_highest.max(token);
    }

    fn step_down(&mut self, node: NodeId) {
        if self.nodes[node as usize].leads.is_none() {
            return;
        }
        self.end_tenure(node);
        let name = self.names[node as usize].clone();
        self.tell(|| Event::new("step_down", "does not lead any more").of(name));
        self.count_believers();
    }

    fn end_tenure(&mut self, node: NodeId) {
        let now = self.now();
        if let Some(tenure) = self.nodes[node as usize].leads.take() {
            self.ledger.end(tenure, now);
        }
    }

    fn count_believers(&mut self) {
        let now = self.now();
        let leaders = self.leaders();
        self.ledger.believers(now, leaders.len());
        *self.judged.entry("one_believer").or_default() += 1;
        if leaders.len() > 1 {
            let names: Vec<&str> =
                leaders.iter().map(|leader| self.names[*leader as usize].as_str()).collect();
            let how = format!("{} believe to lead", names.join(" and "));
            self.breach("one_believer", how);
        }
    }

    fn breach(&mut self, promise: &'static str, how: String) {
        let now = self.now();
        let text = how.clone();
        if let std::collections::btree_map::Entry::Vacant(first) = self.breaches.entry(promise) {
            first.insert((now, how));
            self.tell(|| Event::new("breach", format!("!! {text}")).with("promise", promise));
        }
    }

    /// Tells what a process looks like, if that has changed.
    fn show(&mut self, node: NodeId) {
        let slot = &mut self.nodes[node as usize];
        let view = slot.program.view();
        if view.part == Part::Leader
            && let Some(term) = view.term
        {
            *self.judged.entry("one_leader_per_term").or_default() += 1;
            let leader = *self.by_term.entry(term).or_insert(node);
            if leader != node {
                let (one, other) = (&self.names[leader as usize], &self.names[node as usize]);
                let how = format!("{one} and {other} both lead in term {term}");
                self.breach("one_leader_per_term", how);
            }
        }
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

    pub(super) fn start(&mut self, node: NodeId) {
        let slot = &mut self.nodes[node as usize];
        if slot.up {
            return;
        }
        slot.up = true;
        slot.life += 1;
        slot.pauses = 0;
        slot.waiting.clear();
        slot.alarms.clear();
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

    /// Whether promises were kept so far.
    pub fn verdicts(&self, promises: &[Promise]) -> Vec<Verdict> {
        promises.iter().map(|promise| self.verdict(*promise)).collect()
    }

    fn verdict(&self, promise: Promise) -> Verdict {
        let key = match promise {
            Promise::OneBeliever => "one_believer",
            Promise::OneWriter => "one_writer",
            Promise::OneLeaderPerTerm => "one_leader_per_term",
            Promise::TokensGrow => "tokens_grow",
            Promise::Own(name) => name,
            Promise::SomebodyLeads => {
                let nobody = self.leaders().is_empty();
                let breach = nobody.then(|| (self.now(), "nobody leads".to_owned()));
                return Verdict { promise, judged: 1, breach };
            }
            Promise::VacantAtMost(limit) => {
                let longest = self.ledger.vacant_longest;
                let how = || format!("nobody led for {}", crate::faults::write_span(longest));
                let breach = (longest > limit).then(|| (self.now(), how()));
                return Verdict { promise, judged: 1, breach };
            }
        };
        Verdict {
            promise,
            judged: self.judged.get(key).copied().unwrap_or(0),
            breach: self.breaches.get(key).cloned(),
        }
    }
}

fn micros(at: Moment) -> u64 {
    at.since_start().as_micros() as u64
}

impl<M: Word> std::fmt::Debug for Stage<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = json!(self.names);
        write!(f, "Stage({names} at {:?})", self.now().since_start())
    }
}
