//! Paxos (Lamport 1998): one decree for each term, and the decree says who leads it.
//!
//! Who misses the leader proposes itself for the next term. It asks a majority to *promise* a ballot:
//! to take nothing of a lower one. Who promises tells what it has *accepted* before, and if anybody
//! has, that is what must be proposed. When a majority has accepted one ballot, its value is chosen,
//! for ever. What was promised and accepted is on disk.
//!
//! No partition, loss or crash makes two values of a decree. What it does not promise is an end: two
//! proposers that outbid each other at once, before either is done, can do so for ever (`paxos-eager`).
//! Who waits for a random while before it bids again comes to an end (`paxos`).
//!
//! A leader of an earlier term may believe for a while that it still leads. Its writes carry its term,
//! and the storage takes none of a lower term than it has seen.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt,
    rc::Rc,
    time::Duration,
};

use super::{Algorithm, Scenario, Setup};
use crate::{
    engine::ms,
    stage::{Gate, NodeId, Part, Play, Program, Promise, Scene, Stage, View, Word},
};

const ONE_VALUE: &str = "every decree has one value";
const PROMISES: &[Promise] = &[
    Promise::Own(ONE_VALUE),
    Promise::OneLeaderPerTerm,
    Promise::OneWriter,
    Promise::SomebodyLeads,
];

pub(super) const PAXOS: Algorithm = Algorithm {
    name: "paxos",
    about: "a majority chooses who leads each term; who is outbid waits for a random while",
    origin: "Lamport 1998",
    promises: PROMISES,
    contenders: 5,
    patience: Some(ms(5000)),
    cast: |setup| cast(setup, true),
};

pub(super) const EAGER_PAXOS: Algorithm = Algorithm {
    name: "paxos-eager",
    about: "a majority chooses who leads each term; who is outbid bids again at once",
    origin: "Lamport 1998, without its advice to choose one proposer",
    promises: PROMISES,
    contenders: 5,
    patience: None,
    cast: |setup| cast(setup, false),
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "paxos-crash",
        algorithm: &PAXOS,
        about: "The leader dies, and the next decree gives the next term to another.",
        lasts: Duration::from_secs(10),
        script: "at 3s crash leader for 4s\n",
        breaks: &[],
    },
    Scenario {
        name: "paxos-storm",
        algorithm: &PAXOS,
        about: "Cut, lossy, repeating, reordering network, and members that die and come back: no decree ever has two values, and in the end somebody leads.",
        lasts: Duration::from_secs(30),
        script: "at 1s lose 20% for 20s\nat 1s duplicate 20% for 20s\nat 1s reorder 50% for 20s\nat 1s delay 1ms..80ms for 20s\nat 3s split a b | c d e for 3s\nat 8s split a b c d | e for 3s\nat 10s crash leader for 2s\nat 13s crash a for 1s\nat 13.1s crash b for 1s\nat 13.2s crash c for 1s\nat 16s isolate leader for 4s\nat 22s heal\n",
        breaks: &[],
    },
    Scenario {
        name: "paxos-partition",
        algorithm: &PAXOS,
        about: "The leader is cut off. The majority gives the next term to another; the old leader believes in itself for as long as nobody tells it, and the storage refuses what it writes.",
        lasts: Duration::from_secs(10),
        script: "at 3s isolate leader for 4s\n",
        breaks: &[],
    },
    Scenario {
        name: "paxos-duel",
        algorithm: &EAGER_PAXOS,
        about: "The leader dies, two bid at once, and messages take about equally long. Each bid arrives before the one that it outbids is accepted: nothing wrong is decided, because nothing is.",
        lasts: Duration::from_secs(10),
        script: "at 2s delay 10ms..15ms\nat 3s crash a\n",
        breaks: &[Promise::SomebodyLeads],
    },
    Scenario {
        name: "paxos-duel-ends",
        algorithm: &EAGER_PAXOS,
        about: "The same duel, until messages begin to take unequally long: then somebody is lucky.",
        lasts: Duration::from_secs(10),
        script: "at 2s delay 10ms..15ms for 4s\nat 3s crash a\n",
        breaks: &[],
    },
    Scenario {
        name: "paxos-back-off",
        algorithm: &PAXOS,
        about: "The network of the duel, but who is outbid waits for a random while: the others are done before it bids again.",
        lasts: Duration::from_secs(10),
        script: "at 2s delay 10ms..15ms\nat 3s crash leader\n",
        breaks: &[],
    },
];

/// The leader says that it lives so often.
const HEARTBEAT: Duration = ms(100);
/// Who has heard nothing for so long proposes itself for the next term: the first, and after as long
/// again the next two in the same moment, and so on.
const SILENCE: Duration = ms(500);
/// Who has not got its decree in this time bids again.
const PATIENCE: Duration = ms(400);
/// Who is outbid waits for up to so long at first, and for up to twice as long each time.
const BACK_OFF: Duration = ms(100);
const BACK_OFF_DOUBLINGS_MAX: u32 = 4;

type Decree = u64;

/// Ballots of different members are never equal.
type Ballot = (u64, NodeId);

#[derive(Clone, Debug)]
enum Say {
    Prepare(Decree, Ballot),
    /// With what it accepted before.
    Promise(Decree, Ballot, Option<(Ballot, NodeId)>),
    Accept(Decree, Ballot, NodeId),
    Accepted(Decree, Ballot),
    /// It has promised this one.
    Outbid(Decree, Ballot),
    Chosen(Decree, NodeId),
    Heartbeat(Decree),
}

impl fmt::Display for Say {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bid = |(round, of): &Ballot| format!("{round}.{of}");
        match self {
            Say::Prepare(decree, ballot) => write!(f, "term {decree}: prepare {}", bid(ballot)),
            Say::Promise(decree, ballot, None) => {
                write!(f, "term {decree}: promise {}", bid(ballot))
            }
            Say::Promise(decree, ballot, Some((before, value))) => {
                let (ballot, before) = (bid(ballot), bid(before));
                write!(f, "term {decree}: promise {ballot}, accepted {before} for #{value}")
            }
            Say::Accept(decree, ballot, value) => {
                write!(f, "term {decree}: accept {} for #{value}", bid(ballot))
            }
            Say::Accepted(decree, ballot) => write!(f, "term {decree}: accepted {}", bid(ballot)),
            Say::Outbid(decree, ballot) => {
                write!(f, "term {decree}: have promised {}", bid(ballot))
            }
            Say::Chosen(decree, value) => write!(f, "term {decree} is #{value}'s"),
            Say::Heartbeat(decree) => write!(f, "I lead in term {decree}"),
        }
    }
}

impl Word for Say {
    fn kind(&self) -> &'static str {
        match self {
            Say::Prepare(..) => "prepare",
            Say::Promise(..) => "promise",
            Say::Accept(..) => "accept",
            Say::Accepted(..) => "accepted",
            Say::Outbid(..) => "outbid",
            Say::Chosen(..) => "chosen",
            Say::Heartbeat(_) => "heartbeat",
        }
    }

    fn is_routine(&self) -> bool {
        matches!(self, Say::Heartbeat(_))
    }
}

/// Sees what all acceptors do, which no process can, and holds it against the promise.
#[derive(Debug, Default)]
struct Witness {
    accepted: BTreeMap<(Decree, Ballot), (NodeId, BTreeSet<NodeId>)>,
    chosen: BTreeMap<Decree, NodeId>,
}

impl Witness {
    fn accepts(&mut self, what: (Decree, Ballot), value: NodeId, scene: &mut Scene<'_, Say>) {
        let (first, by) = self.accepted.entry(what).or_insert_with(|| (value, BTreeSet::new()));
        if *first != value {
            return scene.broke(ONE_VALUE, format!("ballot {what:?} has two values"));
        }
        by.insert(scene.me);
        if by.len() >= scene.majority() {
            let chosen = *self.chosen.entry(what.0).or_insert(value);
            if chosen == value {
                scene.kept(ONE_VALUE);
            } else {
                let how = format!("term {} was given to #{chosen} and #{value}", what.0);
                scene.broke(ONE_VALUE, how);
            }
        }
    }
}

/// An acceptor's word on one decree.
#[derive(Clone, Copy, Debug, Default)]
struct Acceptor {
    promised: Option<Ballot>,
    accepted: Option<(Ballot, NodeId)>,
}

/// A bid under way.
#[derive(Debug)]
struct Bid {
    decree: Decree,
    ballot: Ballot,
    promised: BTreeSet<NodeId>,
    /// The highest that anybody has accepted before.
    before: Option<(Ballot, NodeId)>,
    /// What it asks to accept, once a majority has promised.
    value: Option<NodeId>,
    accepted: BTreeSet<NodeId>,
}

#[derive(Debug)]
struct Member {
    witness: Rc<RefCell<Witness>>,
    backs_off: bool,
    /// On disk.
    acceptor: BTreeMap<Decree, Acceptor>,
    /// On disk: the last decree that it knows, and whom it names.
    chosen: Option<(Decree, NodeId)>,
    part: Part,
    bid: Option<Bid>,
    outbid: u32,
}

impl Member {
    fn term(&self) -> Decree {
        self.chosen.map_or(0, |(decree, _)| decree)
    }

    fn watch(scene: &mut Scene<'_, Say>) {
        scene.alarm("silence", SILENCE * (1 + scene.me.div_ceil(2) as u32));
    }

    /// Sends to all, itself included: proposer and acceptor are one process.
    fn tell_all(&mut self, word: &Say, scene: &mut Scene<'_, Say>) {
        scene.broadcast(word);
        self.receive(scene.me, word.clone(), scene);
    }

    fn answer(&mut self, to: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        if to == scene.me {
            self.receive(to, word, scene);
        } else {
            scene.send(to, word);
        }
    }

    /// Bids higher than anything it has seen.
    fn propose(&mut self, scene: &mut Scene<'_, Say>) {
        let decree = self.term() + 1;
        let acceptor = self.acceptor.get(&decree).copied().unwrap_or_default();
        let round = acceptor.promised.map_or(1, |(round, _)| round + 1);
        let ballot = (round, scene.me);
        self.part = Part::Candidate;
        self.bid = Some(Bid {
            decree,
            ballot,
            promised: BTreeSet::new(),
            before: None,
            value: None,
            accepted: BTreeSet::new(),
        });
        scene.cancel("silence");
        scene.alarm("again", PATIENCE);
        self.tell_all(&Say::Prepare(decree, ballot), scene);
    }

    /// Somebody bids higher while its own bid is under way.
    fn lose_bid(&mut self, decree: Decree, ballot: Ballot, scene: &mut Scene<'_, Say>) {
        if !self.bid.as_ref().is_some_and(|bid| bid.decree == decree && bid.ballot < ballot) {
            return;
        }
        // It has heard of that ballot now, and takes nothing lower.
        let acceptor = self.acceptor.entry(decree).or_default();
        acceptor.promised = acceptor.promised.max(Some(ballot));
        self.bid = None;
        if !self.backs_off {
            return self.propose(scene);
        }
        self.outbid = (self.outbid + 1).min(BACK_OFF_DOUBLINGS_MAX);
        let wait = scene.dice().duration(BACK_OFF / 4, BACK_OFF * (1 << self.outbid));
        scene.alarm("again", wait);
    }

    fn prepare(
        &mut self,
        from: NodeId,
        decree: Decree,
        ballot: Ballot,
        scene: &mut Scene<'_, Say>,
    ) {
        let acceptor = self.acceptor.entry(decree).or_default();
        if acceptor.promised.is_some_and(|promised| promised > ballot) {
            let word = Say::Outbid(decree, acceptor.promised.unwrap_or(ballot));
            return self.answer(from, word, scene);
        }
        acceptor.promised = Some(ballot);
        let accepted = acceptor.accepted;
        if self.part != Part::Leader && self.bid.is_none() {
            // Somebody sees to it.
            Member::watch(scene);
        }
        let word = Say::Promise(decree, ballot, accepted);
        self.answer(from, word, scene);
        self.lose_bid(decree, ballot, scene);
    }

    fn promised(
        &mut self,
        by: NodeId,
        what: (Decree, Ballot),
        before: Option<(Ballot, NodeId)>,
        scene: &mut Scene<'_, Say>,
    ) {
        let bid = self.bid.as_mut().filter(|bid| (bid.decree, bid.ballot) == what);
        let Some(bid) = bid else { return };
        bid.promised.insert(by);
        bid.before = bid.before.max(before);
        if bid.value.is_none() && bid.promised.len() >= scene.majority() {
            let value = bid.before.map_or(scene.me, |(_, value)| value);
            bid.value = Some(value);
            let word = Say::Accept(bid.decree, bid.ballot, value);
            self.tell_all(&word, scene);
        }
    }

    fn accept(
        &mut self,
        from: NodeId,
        what: (Decree, Ballot),
        value: NodeId,
        scene: &mut Scene<'_, Say>,
    ) {
        let (decree, ballot) = what;
        let acceptor = self.acceptor.entry(decree).or_default();
        if let Some(promised) = acceptor.promised.filter(|promised| *promised > ballot) {
            return self.answer(from, Say::Outbid(decree, promised), scene);
        }
        *acceptor = Acceptor { promised: Some(ballot), accepted: Some((ballot, value)) };
        self.witness.borrow_mut().accepts(what, value, scene);
        self.answer(from, Say::Accepted(decree, ballot), scene);
    }

    fn accepted(&mut self, by: NodeId, what: (Decree, Ballot), scene: &mut Scene<'_, Say>) {
        let bid = self.bid.as_mut().filter(|bid| (bid.decree, bid.ballot) == what);
        let Some(bid) = bid else { return };
        let Some(value) = bid.value else { return };
        bid.accepted.insert(by);
        if bid.accepted.len() >= scene.majority() {
            let word = Say::Chosen(bid.decree, value);
            self.tell_all(&word, scene);
        }
    }

    fn learn(&mut self, decree: Decree, value: NodeId, scene: &mut Scene<'_, Say>) {
        if decree <= self.term() {
            return;
        }
        self.chosen = Some((decree, value));
        self.acceptor = self.acceptor.split_off(&decree);
        self.bid = None;
        self.outbid = 0;
        scene.cancel("again");
        scene.step_down();
        if value == scene.me {
            self.part = Part::Leader;
            scene.cancel("silence");
            scene.lead(Some(decree));
            scene.broadcast(&Say::Heartbeat(decree));
            scene.alarm("heartbeat", HEARTBEAT);
        } else {
            self.part = Part::Follower;
            scene.cancel("heartbeat");
            Member::watch(scene);
        }
    }

    /// Of what is chosen nothing has to be asked any more.
    fn tell_if_chosen(&self, to: NodeId, decree: Decree, scene: &mut Scene<'_, Say>) -> bool {
        let Some((last, value)) = self.chosen.filter(|(last, _)| *last >= decree) else {
            return false;
        };
        scene.send(to, Say::Chosen(last, value));
        true
    }
}

impl Program<Say> for Member {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        self.part = Part::Idle;
        self.bid = None;
        self.outbid = 0;
        Member::watch(scene);
    }

    fn receive(&mut self, from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match word {
            Say::Prepare(decree, _) | Say::Accept(decree, ..)
                if self.tell_if_chosen(from, decree, scene) => {}
            Say::Prepare(decree, ballot) => self.prepare(from, decree, ballot, scene),
            Say::Promise(decree, ballot, before) => {
                self.promised(from, (decree, ballot), before, scene);
            }
            Say::Accept(decree, ballot, value) => {
                self.accept(from, (decree, ballot), value, scene);
            }
            Say::Accepted(decree, ballot) => self.accepted(from, (decree, ballot), scene),
            Say::Outbid(decree, ballot) => self.lose_bid(decree, ballot, scene),
            Say::Chosen(decree, value) => self.learn(decree, value, scene),
            Say::Heartbeat(decree) if decree < self.term() => {
                self.tell_if_chosen(from, decree, scene);
            }
            Say::Heartbeat(decree) => {
                self.learn(decree, from, scene);
                if self.part != Part::Leader {
                    self.part = Part::Follower;
                    self.bid = None;
                    scene.cancel("again");
                    Member::watch(scene);
                }
            }
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "heartbeat" if self.part == Part::Leader => {
                scene.broadcast(&Say::Heartbeat(self.term()));
                scene.alarm("heartbeat", HEARTBEAT);
            }
            "silence" => {
                scene.detect();
                self.propose(scene);
            }
            "again" => self.propose(scene),
            _ => {}
        }
    }

    fn view(&self) -> View {
        let view = View::new(self.part).term(self.term());
        let view = view.leader(self.chosen.map(|(_, leader)| leader));
        match &self.bid {
            Some(bid) => view.fact("ballot", format!("{}.{}", bid.ballot.0, bid.ballot.1)),
            None => view,
        }
    }
}

fn cast(setup: &Setup, backs_off: bool) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Tokens);
    let witness = Rc::new(RefCell::new(Witness::default()));
    for _ in 0..setup.contenders {
        stage.contender(Member {
            witness: Rc::clone(&witness),
            backs_off,
            acceptor: BTreeMap::new(),
            chosen: None,
            part: Part::Idle,
            bid: None,
            outbid: 0,
        });
    }
    Box::new(stage)
}
