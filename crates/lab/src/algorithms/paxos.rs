//! Paxos (Lamport 1998): one decree for each term, which names the leader of that term.
//!
//! A process that misses the leader proposes itself for the next term. It asks a majority to *promise* a ballot: to accept
//! nothing of a lower one. A promise includes what was *accepted* before, and if there is such a value, it must be
//! proposed. A value that a majority has accepted in one ballot is chosen for ever. Promises and accepted values are on
//! disk.
//!
//! No partition, loss or crash makes two values of a decree. Termination is not promised: two proposers that outbid each
//! other at once, before either is done, can do so for ever (`paxos-eager`). With a random wait before the next bid it
//! ends (`paxos`).
//!
//! A leader of an earlier term may believe for a while that it still leads. Its writes carry its term, and the storage
//! takes none of a lower term than it has seen.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt,
    rc::Rc,
    time::Duration,
};

use super::{Algorithm, Setup, Story};
use crate::{
    engine::ms,
    stage::{
        Actor, AlgorithmRun, Context, ProcessId, ProcessRole, ProcessView, Promise,
        ProtocolMessage, Stage, StorageGate,
    },
};

const ONE_VALUE: &str = "every decree has one value";
const PROMISES: &[Promise] =
    &[Promise::Own(ONE_VALUE), Promise::OneLeaderPerTerm, Promise::OneWriter, Promise::LeaderAtEnd];

pub(super) const PAXOS: Algorithm = Algorithm {
    name: "paxos",
    about: "a majority chooses the leader of each term; an outbid process waits for a random time",
    origin: "Lamport 1998",
    promises: PROMISES,
    contenders: 5,
    patience: Some(ms(5000)),
    build: |setup| build(setup, true),
};

pub(super) const EAGER_PAXOS: Algorithm = Algorithm {
    name: "paxos-eager",
    about: "a majority chooses the leader of each term; an outbid process bids again at once",
    origin: "Lamport 1998, without its advice to choose one proposer",
    promises: PROMISES,
    contenders: 5,
    patience: None,
    build: |setup| build(setup, false),
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "paxos-crash",
        algorithm: &PAXOS,
        about: "The leader dies, and the next decree gives the next term to another.",
        lasts: Duration::from_secs(10),
        script: "at 3s crash leader for 4s\n",
        breaks: &[],
    },
    Story {
        name: "paxos-storm",
        algorithm: &PAXOS,
        about: "Cut, lossy, repeating, reordering network, and members that die and come back: no decree ever has two values, and in the end there is a leader.",
        lasts: Duration::from_secs(30),
        script: "at 1s lose 20% for 20s\nat 1s duplicate 20% for 20s\nat 1s reorder 50% for 20s\nat 1s delay 1ms..80ms for 20s\nat 3s split a b | c d e for 3s\nat 8s split a b c d | e for 3s\nat 10s crash leader for 2s\nat 13s crash a for 1s\nat 13.1s crash b for 1s\nat 13.2s crash c for 1s\nat 16s isolate leader for 4s\nat 22s heal\n",
        breaks: &[],
    },
    Story {
        name: "paxos-partition",
        algorithm: &PAXOS,
        about: "The leader is cut off. The majority gives the next term to another; the old leader believes to lead until it is told, and the storage refuses what it writes.",
        lasts: Duration::from_secs(10),
        script: "at 3s isolate leader for 4s\n",
        breaks: &[],
    },
    Story {
        name: "paxos-duel",
        algorithm: &EAGER_PAXOS,
        about: "The leader dies, two bid at once, and messages take about equally long. Each bid arrives before the one that it outbids is accepted: nothing wrong is decided, because nothing is.",
        lasts: Duration::from_secs(10),
        script: "at 2s delay 10ms..15ms\nat 3s crash a\n",
        breaks: &[Promise::LeaderAtEnd],
    },
    Story {
        name: "paxos-duel-ends",
        algorithm: &EAGER_PAXOS,
        about: "The same duel, until messages begin to take unequally long: then one bid succeeds.",
        lasts: Duration::from_secs(10),
        script: "at 2s delay 10ms..15ms for 4s\nat 3s crash a\n",
        breaks: &[],
    },
    Story {
        name: "paxos-back-off",
        algorithm: &PAXOS,
        about: "The network of the duel, but an outbid process waits for a random time: the others are done before it bids again.",
        lasts: Duration::from_secs(10),
        script: "at 2s delay 10ms..15ms\nat 3s crash leader\n",
        breaks: &[],
    },
];

/// How often the leader sends a heartbeat.
const HEARTBEAT: Duration = ms(100);
/// After this much silence the first process proposes itself for the next term; after as much again the next two at the same
/// moment, and so on.
const SILENCE: Duration = ms(500);
/// After this time without a decree a process bids again.
const PATIENCE: Duration = ms(400);
/// The longest random wait after the first lost bid; it doubles each time.
const BACK_OFF: Duration = ms(100);
const BACK_OFF_DOUBLINGS_MAX: u32 = 4;

type Decree = u64;

/// Ballots of different processes are never equal.
type Ballot = (u64, ProcessId);

#[derive(Clone, Debug)]
enum PaxosMessage {
    Prepare(Decree, Ballot),
    /// With the value that it accepted before.
    Promise(Decree, Ballot, Option<(Ballot, ProcessId)>),
    Accept(Decree, Ballot, ProcessId),
    Accepted(Decree, Ballot),
    /// It has promised this ballot.
    Outbid(Decree, Ballot),
    Chosen(Decree, ProcessId),
    Heartbeat(Decree),
}

impl fmt::Display for PaxosMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bid = |(round, of): &Ballot| format!("{round}.{of}");
        match self {
            PaxosMessage::Prepare(decree, ballot) => {
                write!(f, "term {decree}: prepare {}", bid(ballot))
            }
            PaxosMessage::Promise(decree, ballot, None) => {
                write!(f, "term {decree}: promise {}", bid(ballot))
            }
            PaxosMessage::Promise(decree, ballot, Some((before, value))) => {
                let (ballot, before) = (bid(ballot), bid(before));
                write!(f, "term {decree}: promise {ballot}, accepted {before} for #{value}")
            }
            PaxosMessage::Accept(decree, ballot, value) => {
                write!(f, "term {decree}: accept {} for #{value}", bid(ballot))
            }
            PaxosMessage::Accepted(decree, ballot) => {
                write!(f, "term {decree}: accepted {}", bid(ballot))
            }
            PaxosMessage::Outbid(decree, ballot) => {
                write!(f, "term {decree}: have promised {}", bid(ballot))
            }
            PaxosMessage::Chosen(decree, value) => write!(f, "term {decree} is #{value}'s"),
            PaxosMessage::Heartbeat(decree) => write!(f, "I lead in term {decree}"),
        }
    }
}

impl ProtocolMessage for PaxosMessage {
    fn kind(&self) -> &'static str {
        match self {
            PaxosMessage::Prepare(..) => "prepare",
            PaxosMessage::Promise(..) => "promise",
            PaxosMessage::Accept(..) => "accept",
            PaxosMessage::Accepted(..) => "accepted",
            PaxosMessage::Outbid(..) => "outbid",
            PaxosMessage::Chosen(..) => "chosen",
            PaxosMessage::Heartbeat(_) => "heartbeat",
        }
    }

    fn is_routine(&self) -> bool {
        matches!(self, PaxosMessage::Heartbeat(_))
    }
}

/// Sees what all acceptors do, which no process can, and checks the promise.
#[derive(Debug, Default)]
struct Witness {
    accepted: BTreeMap<(Decree, Ballot), (ProcessId, BTreeSet<ProcessId>)>,
    chosen: BTreeMap<Decree, ProcessId>,
}

impl Witness {
    fn accepts(
        &mut self,
        what: (Decree, Ballot),
        value: ProcessId,
        context: &mut Context<'_, PaxosMessage>,
    ) {
        let (first, by) = self.accepted.entry(what).or_insert_with(|| (value, BTreeSet::new()));
        if *first != value {
            return context.broke(ONE_VALUE, format!("ballot {what:?} has two values"));
        }
        by.insert(context.me);
        if by.len() >= context.majority() {
            let chosen = *self.chosen.entry(what.0).or_insert(value);
            if chosen == value {
                context.kept(ONE_VALUE);
            } else {
                let how = format!("term {} was given to #{chosen} and #{value}", what.0);
                context.broke(ONE_VALUE, how);
            }
        }
    }
}

/// An acceptor's state for one decree.
#[derive(Clone, Copy, Debug, Default)]
struct Acceptor {
    promised: Option<Ballot>,
    accepted: Option<(Ballot, ProcessId)>,
}

/// A bid under way.
#[derive(Debug)]
struct Bid {
    decree: Decree,
    ballot: Ballot,
    promised: BTreeSet<ProcessId>,
    /// The highest that any acceptor has accepted before.
    before: Option<(Ballot, ProcessId)>,
    /// The value that it asks to accept, once a majority has promised.
    value: Option<ProcessId>,
    accepted: BTreeSet<ProcessId>,
}

#[derive(Debug)]
struct PaxosProcess {
    witness: Rc<RefCell<Witness>>,
    backs_off: bool,
    /// On disk.
    acceptor: BTreeMap<Decree, Acceptor>,
    /// On disk: the last known decree, and the leader that it names.
    chosen: Option<(Decree, ProcessId)>,
    role: ProcessRole,
    bid: Option<Bid>,
    outbid: u32,
}

impl PaxosProcess {
    fn term(&self) -> Decree {
        self.chosen.map_or(0, |(decree, _)| decree)
    }

    fn watch(context: &mut Context<'_, PaxosMessage>) {
        context.alarm("silence", SILENCE * (1 + context.me.div_ceil(2) as u32));
    }

    /// Sends to all, itself included: proposer and acceptor are one process.
    fn tell_all(&mut self, message: &PaxosMessage, context: &mut Context<'_, PaxosMessage>) {
        context.broadcast(message);
        self.receive(context.me, message.clone(), context);
    }

    fn answer(
        &mut self,
        to: ProcessId,
        message: PaxosMessage,
        context: &mut Context<'_, PaxosMessage>,
    ) {
        if to == context.me {
            self.receive(to, message, context);
        } else {
            context.send(to, message);
        }
    }

    /// Bids higher than any bid that it has seen.
    fn propose(&mut self, context: &mut Context<'_, PaxosMessage>) {
        let decree = self.term() + 1;
        let acceptor = self.acceptor.get(&decree).copied().unwrap_or_default();
        let round = acceptor.promised.map_or(1, |(round, _)| round + 1);
        let ballot = (round, context.me);
        self.role = ProcessRole::Candidate;
        self.bid = Some(Bid {
            decree,
            ballot,
            promised: BTreeSet::new(),
            before: None,
            value: None,
            accepted: BTreeSet::new(),
        });
        context.cancel("silence");
        context.alarm("again", PATIENCE);
        self.tell_all(&PaxosMessage::Prepare(decree, ballot), context);
    }

    /// Another process bids higher while its own bid is under way.
    fn lose_bid(
        &mut self,
        decree: Decree,
        ballot: Ballot,
        context: &mut Context<'_, PaxosMessage>,
    ) {
        if !self.bid.as_ref().is_some_and(|bid| bid.decree == decree && bid.ballot < ballot) {
            return;
        }
        // It knows that ballot now, and accepts nothing lower.
        let acceptor = self.acceptor.entry(decree).or_default();
        acceptor.promised = acceptor.promised.max(Some(ballot));
        self.bid = None;
        if !self.backs_off {
            return self.propose(context);
        }
        self.outbid = (self.outbid + 1).min(BACK_OFF_DOUBLINGS_MAX);
        let wait = context.dice().duration(BACK_OFF / 4, BACK_OFF * (1 << self.outbid));
        context.alarm("again", wait);
    }

    fn prepare(
        &mut self,
        from: ProcessId,
        decree: Decree,
        ballot: Ballot,
        context: &mut Context<'_, PaxosMessage>,
    ) {
        let acceptor = self.acceptor.entry(decree).or_default();
        if acceptor.promised.is_some_and(|promised| promised > ballot) {
            let message = PaxosMessage::Outbid(decree, acceptor.promised.unwrap_or(ballot));
            return self.answer(from, message, context);
        }
        acceptor.promised = Some(ballot);
        let accepted = acceptor.accepted;
        if self.role != ProcessRole::Leader && self.bid.is_none() {
            // Another process is bidding.
            PaxosProcess::watch(context);
        }
        let message = PaxosMessage::Promise(decree, ballot, accepted);
        self.answer(from, message, context);
        self.lose_bid(decree, ballot, context);
    }

    fn promised(
        &mut self,
        by: ProcessId,
        what: (Decree, Ballot),
        before: Option<(Ballot, ProcessId)>,
        context: &mut Context<'_, PaxosMessage>,
    ) {
        let bid = self.bid.as_mut().filter(|bid| (bid.decree, bid.ballot) == what);
        let Some(bid) = bid else { return };
        bid.promised.insert(by);
        bid.before = bid.before.max(before);
        if bid.value.is_none() && bid.promised.len() >= context.majority() {
            let value = bid.before.map_or(context.me, |(_, value)| value);
            bid.value = Some(value);
            let message = PaxosMessage::Accept(bid.decree, bid.ballot, value);
            self.tell_all(&message, context);
        }
    }

    fn accept(
        &mut self,
        from: ProcessId,
        what: (Decree, Ballot),
        value: ProcessId,
        context: &mut Context<'_, PaxosMessage>,
    ) {
        let (decree, ballot) = what;
        let acceptor = self.acceptor.entry(decree).or_default();
        if let Some(promised) = acceptor.promised.filter(|promised| *promised > ballot) {
            return self.answer(from, PaxosMessage::Outbid(decree, promised), context);
        }
        *acceptor = Acceptor { promised: Some(ballot), accepted: Some((ballot, value)) };
        self.witness.borrow_mut().accepts(what, value, context);
        self.answer(from, PaxosMessage::Accepted(decree, ballot), context);
    }

    fn accepted(
        &mut self,
        by: ProcessId,
        what: (Decree, Ballot),
        context: &mut Context<'_, PaxosMessage>,
    ) {
        let bid = self.bid.as_mut().filter(|bid| (bid.decree, bid.ballot) == what);
        let Some(bid) = bid else { return };
        let Some(value) = bid.value else { return };
        bid.accepted.insert(by);
        if bid.accepted.len() >= context.majority() {
            let message = PaxosMessage::Chosen(bid.decree, value);
            self.tell_all(&message, context);
        }
    }

    fn learn(&mut self, decree: Decree, value: ProcessId, context: &mut Context<'_, PaxosMessage>) {
        if decree <= self.term() {
            return;
        }
        self.chosen = Some((decree, value));
        self.acceptor = self.acceptor.split_off(&decree);
        self.bid = None;
        self.outbid = 0;
        context.cancel("again");
        context.step_down();
        if value == context.me {
            self.role = ProcessRole::Leader;
            context.cancel("silence");
            context.lead(Some(decree));
            context.broadcast(&PaxosMessage::Heartbeat(decree));
            context.alarm("heartbeat", HEARTBEAT);
        } else {
            self.role = ProcessRole::Follower;
            context.cancel("heartbeat");
            PaxosProcess::watch(context);
        }
    }

    /// A chosen decree needs no further messages.
    fn tell_if_chosen(
        &self,
        to: ProcessId,
        decree: Decree,
        context: &mut Context<'_, PaxosMessage>,
    ) -> bool {
        let Some((last, value)) = self.chosen.filter(|(last, _)| *last >= decree) else {
            return false;
        };
        context.send(to, PaxosMessage::Chosen(last, value));
        true
    }
}

impl Actor<PaxosMessage> for PaxosProcess {
    fn start(&mut self, context: &mut Context<'_, PaxosMessage>) {
        self.role = ProcessRole::Idle;
        self.bid = None;
        self.outbid = 0;
        PaxosProcess::watch(context);
    }

    fn receive(
        &mut self,
        from: ProcessId,
        message: PaxosMessage,
        context: &mut Context<'_, PaxosMessage>,
    ) {
        match message {
            PaxosMessage::Prepare(decree, _) | PaxosMessage::Accept(decree, ..)
                if self.tell_if_chosen(from, decree, context) => {}
            PaxosMessage::Prepare(decree, ballot) => self.prepare(from, decree, ballot, context),
            PaxosMessage::Promise(decree, ballot, before) => {
                self.promised(from, (decree, ballot), before, context);
            }
            PaxosMessage::Accept(decree, ballot, value) => {
                self.accept(from, (decree, ballot), value, context);
            }
            PaxosMessage::Accepted(decree, ballot) => {
                self.accepted(from, (decree, ballot), context)
            }
            PaxosMessage::Outbid(decree, ballot) => self.lose_bid(decree, ballot, context),
            PaxosMessage::Chosen(decree, value) => self.learn(decree, value, context),
            PaxosMessage::Heartbeat(decree) if decree < self.term() => {
                self.tell_if_chosen(from, decree, context);
            }
            PaxosMessage::Heartbeat(decree) => {
                self.learn(decree, from, context);
                if self.role != ProcessRole::Leader {
                    self.role = ProcessRole::Follower;
                    self.bid = None;
                    context.cancel("again");
                    PaxosProcess::watch(context);
                }
            }
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, PaxosMessage>) {
        match alarm {
            "heartbeat" if self.role == ProcessRole::Leader => {
                context.broadcast(&PaxosMessage::Heartbeat(self.term()));
                context.alarm("heartbeat", HEARTBEAT);
            }
            "silence" => {
                context.detect();
                self.propose(context);
            }
            "again" => self.propose(context),
            _ => {}
        }
    }

    fn view(&self) -> ProcessView {
        let view = ProcessView::new(self.role).term(self.term());
        let view = view.leader(self.chosen.map(|(_, leader)| leader));
        match &self.bid {
            Some(bid) => view.fact("ballot", format!("{}.{}", bid.ballot.0, bid.ballot.1)),
            None => view,
        }
    }
}

fn build(setup: &Setup, backs_off: bool) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Tokens);
    let witness = Rc::new(RefCell::new(Witness::default()));
    for _ in 0..setup.contenders {
        stage.add_contender(PaxosProcess {
            witness: Rc::clone(&witness),
            backs_off,
            acceptor: BTreeMap::new(),
            chosen: None,
            role: ProcessRole::Idle,
            bid: None,
            outbid: 0,
        });
    }
    Box::new(stage)
}
