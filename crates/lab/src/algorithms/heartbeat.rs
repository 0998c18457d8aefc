//! Two ways to notice that the leader is gone, side by side: missed heartbeats, and a lease that ends.
//!
//! - `heartbeat`: the leader shows itself every 2 s. Who has missed three in a row takes it for dead and
//!   stands for election; after 5 s the highest of those who stand leads. Three times 2 s and 5 s are
//!   11 s, unless somebody dies in the middle of it: then it all begins anew, and there is no bound.
//! - `heartbeat-lease`: the leader leads only for as long as a majority has lent it the office: 10 s from
//!   each renewal. When the lease has ended those who lent it stand, and 200 ms later they lend it to the
//!   highest: 10.2 s. A leader that cannot renew stops by itself before anybody else may lead.
//!
//! The first needs no majority and is wrong when the network is cut; the second needs clocks that run
//! about equally fast.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use tenure_replica::Moment;

use super::{Algorithm, Scenario, Setup};
use crate::{
    engine::ms,
    stage::{Gate, NodeId, Part, Play, Program, Promise, Scene, Stage, View, Word},
};

const PROMISES: &[Promise] =
    &[Promise::OneBeliever, Promise::OneWriter, Promise::SomebodyLeads, HEARTBEAT_AWAY_MAX];
const LEASE_PROMISES: &[Promise] =
    &[Promise::OneBeliever, Promise::OneWriter, Promise::SomebodyLeads, LEASE_AWAY_MAX];
/// 3 × 2 s + 5 s.
const HEARTBEAT_AWAY_MAX: Promise = Promise::VacantAtMost(ms(11_000));
/// 10 s + 200 ms, and what messages take.
const LEASE_AWAY_MAX: Promise = Promise::VacantAtMost(ms(10_250));

pub(super) const HEARTBEAT: Algorithm = Algorithm {
    name: "heartbeat",
    about: "three missed heartbeats of 2 s, then an election of 5 s",
    origin: "the usual failure detector: missed × interval + election",
    promises: PROMISES,
    contenders: 5,
    patience: Some(ms(12_000)),
    cast: |setup| cast(setup, &MISSED),
};

pub(super) const LEASED_HEARTBEAT: Algorithm = Algorithm {
    name: "heartbeat-lease",
    about: "a majority lends the office for 10 s at a time; 200 ms after its end it lends it anew",
    origin: "Gray and Cheriton 1989: TTL + election",
    promises: LEASE_PROMISES,
    contenders: 5,
    patience: Some(ms(12_000)),
    cast: |setup| cast(setup, &LEASE),
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "heartbeat-crash",
        algorithm: &HEARTBEAT,
        about: "The leader dies just after a heartbeat: three are missed, the election takes its time, and nobody has led for 11 s.",
        lasts: Duration::from_secs(40),
        script: "at 21.05s crash leader\n",
        breaks: &[],
    },
    Scenario {
        name: "heartbeat-unlucky",
        algorithm: &HEARTBEAT,
        about: "The leader dies, and before the election is over the one that would win it dies too. Nobody misses it until three of its heartbeats are missing: 11 s become 22 s, and could become any number.",
        lasts: Duration::from_secs(60),
        script: "at 21.05s crash e\nat 30s crash d\n",
        breaks: &[HEARTBEAT_AWAY_MAX],
    },
    Scenario {
        name: "heartbeat-partition",
        algorithm: &HEARTBEAT,
        about: "The network is cut in two. One side misses the leader's heartbeats and elects another.",
        lasts: Duration::from_secs(60),
        script: "at 20s split a b | c d e for 20s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "heartbeat-lease-crash",
        algorithm: &LEASED_HEARTBEAT,
        about: "The leader dies just after a renewal: the lease runs for another 10 s, and 200 ms later somebody else leads.",
        lasts: Duration::from_secs(40),
        script: "at 20.25s crash leader\n",
        breaks: &[],
    },
    Scenario {
        name: "heartbeat-lease-partition",
        algorithm: &LEASED_HEARTBEAT,
        about: "The leader is cut off with one other. It cannot renew and stops before its lease ends; only then do the others lend the office anew.",
        lasts: Duration::from_secs(60),
        script: "at 20.25s split a b c | d e for 20s\n",
        breaks: &[],
    },
    Scenario {
        name: "heartbeat-lease-pause",
        algorithm: &LEASED_HEARTBEAT,
        about: "The leader stands still for longer than its lease and goes on believing. It looks at the clock before it writes, and that saves the storage this once: between the look and the write nothing happens here.",
        lasts: Duration::from_secs(60),
        script: "at 20.25s pause leader for 30s\n",
        breaks: &[Promise::OneBeliever],
    },
];

/// How the leader's end is noticed.
#[derive(Debug)]
struct Detector {
    /// The leader shows itself so often.
    interval: Duration,
    /// Who has heard nothing for so long stands for election.
    silence: Duration,
    /// So long after that somebody leads.
    election: Duration,
    /// Whether a majority lends the office, and for the time of silence only.
    lends: bool,
}

const MISSED: Detector =
    Detector { interval: ms(2000), silence: ms(3 * 2000), election: ms(5000), lends: false };
const LEASE: Detector =
    Detector { interval: ms(10_000 / 3), silence: ms(10_000), election: ms(200), lends: true };

/// A leader counts its lease as shorter by this share: clocks do not run equally fast.
const MARGIN: u32 = 100;

#[derive(Clone, Debug)]
enum Say {
    /// With when it was sent, by the leader's own clock.
    Heartbeat(Moment),
    Heard(Moment),
    /// With when it began to stand, by its own clock.
    Stand(Moment),
    /// To who began to stand then: a loan that comes too late is for nobody.
    Lend(Moment),
}

impl fmt::Display for Say {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Say::Heartbeat(_) => "I am still here",
            Say::Heard(_) => "I have heard you",
            Say::Stand(_) => "the leader is gone; I would do it",
            Say::Lend(_) => "do it, for as long as the lease lasts",
        })
    }
}

impl Word for Say {
    fn kind(&self) -> &'static str {
        match self {
            Say::Heartbeat(_) => "heartbeat",
            Say::Heard(_) => "heard",
            Say::Stand(_) => "stand",
            Say::Lend(_) => "lend",
        }
    }

    fn is_routine(&self) -> bool {
        matches!(self, Say::Heartbeat(_) | Say::Heard(_))
    }
}

#[derive(Debug)]
struct Member {
    detector: &'static Detector,
    /// On disk: it has run before, and may have lent the office to somebody.
    has_run: bool,
    part: Part,
    leader: Option<NodeId>,
    /// Who stands, since when, and since when by its own clock.
    standing: BTreeMap<NodeId, (Moment, Moment)>,
    stood: Moment,
    lenders: BTreeSet<NodeId>,
    /// Who has heard which heartbeat.
    heard: BTreeMap<Moment, BTreeSet<NodeId>>,
    lease_until: Moment,
}

impl Member {
    fn new(detector: &'static Detector) -> Member {
        Member {
            detector,
            has_run: false,
            part: Part::Idle,
            leader: None,
            standing: BTreeMap::new(),
            stood: Moment::ZERO,
            lenders: BTreeSet::new(),
            heard: BTreeMap::new(),
            lease_until: Moment::ZERO,
        }
    }

    fn stand(&mut self, scene: &mut Scene<'_, Say>) {
        let (now, recent) = (scene.now(), 2 * self.detector.election);
        self.part = Part::Candidate;
        self.leader = None;
        self.stood = now;
        self.lenders.clear();
        self.standing.retain(|_, (since, _)| now.since(*since) <= recent);
        self.standing.insert(scene.me, (now, now));
        scene.broadcast(&Say::Stand(now));
        scene.alarm("election", self.detector.election);
    }

    /// The highest of those who stand shall lead.
    fn choose(&mut self, scene: &mut Scene<'_, Say>) {
        let (highest, stood) = match self.standing.last_key_value() {
            Some((highest, (_, stood))) => (*highest, *stood),
            None => (scene.me, self.stood),
        };
        scene.alarm("silence", self.detector.silence);
        if self.detector.lends {
            self.part = Part::Waiting;
            self.leader = Some(highest);
            if highest == scene.me {
                self.lent_by(scene.me, scene);
            } else {
                scene.send(highest, Say::Lend(stood));
            }
        } else if highest == scene.me {
            self.win(scene);
        } else {
            self.part = Part::Follower;
            self.leader = Some(highest);
        }
    }

    fn lent_by(&mut self, lender: NodeId, scene: &mut Scene<'_, Say>) {
        self.lenders.insert(lender);
        let lent_to_itself = self.lenders.contains(&scene.me);
        if self.part != Part::Leader && lent_to_itself && self.lenders.len() >= scene.majority() {
            // Nobody lends to one that has not stood yet.
            self.renewed(self.stood, scene);
            self.win(scene);
        }
    }

    fn renewed(&mut self, sent: Moment, scene: &mut Scene<'_, Say>) {
        let lasts = self.detector.silence - self.detector.silence / MARGIN;
        self.lease_until = self.lease_until.max(sent + lasts);
        scene.alarm("lease", self.lease_until.since(scene.now()));
    }

    fn win(&mut self, scene: &mut Scene<'_, Say>) {
        self.part = Part::Leader;
        self.leader = Some(scene.me);
        scene.cancel("silence");
        scene.lead(None);
        self.show(scene);
    }

    fn show(&mut self, scene: &mut Scene<'_, Say>) {
        let now = scene.now();
        if self.detector.lends {
            self.heard.insert(now, BTreeSet::from([scene.me]));
        }
        scene.broadcast(&Say::Heartbeat(now));
        scene.alarm("heartbeat", self.detector.interval);
    }

    fn follow(&mut self, leader: NodeId, scene: &mut Scene<'_, Say>) {
        self.part = Part::Follower;
        self.leader = Some(leader);
        self.standing.clear();
        scene.step_down();
        scene.cancel("heartbeat");
        scene.cancel("election");
        scene.cancel("lease");
        scene.alarm("silence", self.detector.silence);
    }

    /// Whether it may take a heartbeat for its leader's. Who has lent the office to one does not listen
    /// to another; of two that nobody has lent anything to, the higher stays.
    fn believes(&self, from: NodeId, me: NodeId) -> bool {
        match self.part {
            Part::Leader => !self.detector.lends && from > me,
            Part::Waiting | Part::Follower => {
                self.leader.is_none_or(|leader| leader == from)
                    || !self.detector.lends && self.leader < Some(from)
            }
            _ => true,
        }
    }

    fn heartbeat(&mut self, from: NodeId, sent: Moment, scene: &mut Scene<'_, Say>) {
        if self.believes(from, scene.me) {
            self.follow(from, scene);
            if self.detector.lends {
                scene.send(from, Say::Heard(sent));
            }
        } else if self.part == Part::Leader && !self.detector.lends {
            scene.send(from, Say::Heartbeat(scene.now()));
        }
    }

    fn heard(&mut self, by: NodeId, sent: Moment, scene: &mut Scene<'_, Say>) {
        let Some(heard) = self.heard.get_mut(&sent) else { return };
        heard.insert(by);
        if self.part == Part::Leader && heard.len() >= scene.majority() {
            self.heard = self.heard.split_off(&sent);
            self.renewed(sent, scene);
        }
    }
}

impl Program<Say> for Member {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        let had_run = self.has_run;
        *self = Member { has_run: true, ..Member::new(self.detector) };
        if had_run {
            // It does not know whom it has lent the office to, so it waits until that is over.
            scene.alarm("silence", self.detector.silence);
        } else {
            self.stand(scene);
        }
    }

    fn receive(&mut self, from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match word {
            Say::Heartbeat(sent) => self.heartbeat(from, sent, scene),
            Say::Heard(sent) => self.heard(from, sent, scene),
            Say::Stand(_) if self.part == Part::Leader => {
                scene.send(from, Say::Heartbeat(scene.now()));
            }
            Say::Stand(stood) => {
                self.standing.insert(from, (scene.now(), stood));
            }
            Say::Lend(stood) if stood == self.stood => self.lent_by(from, scene),
            Say::Lend(_) => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "heartbeat" if self.part == Part::Leader => self.show(scene),
            "election" => self.choose(scene),
            "silence" => {
                scene.detect();
                self.stand(scene);
            }
            "lease" => {
                scene.say("could not renew its lease");
                self.part = Part::Idle;
                self.leader = None;
                scene.step_down();
                scene.cancel("heartbeat");
                scene.alarm("silence", self.detector.silence / MARGIN);
            }
            _ => {}
        }
    }

    fn may_write(&mut self, scene: &mut Scene<'_, Say>) -> bool {
        !self.detector.lends || scene.now() < self.lease_until
    }

    fn view(&self) -> View {
        View::new(self.part).leader(self.leader)
    }
}

fn cast(setup: &Setup, detector: &'static Detector) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Open);
    for _ in 0..setup.contenders {
        stage.contender(Member::new(detector));
    }
    Box::new(stage)
}
