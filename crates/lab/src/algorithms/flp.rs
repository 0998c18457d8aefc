//! FLP (Fischer, Lynch, Paterson 1985): no deterministic consensus ends in every run, if a message may
//! take any time and one process may fail. And Ben-Or (1983): with a coin it ends, with probability one.
//!
//! Two candidates, `a` and `b`; everybody prefers one of them, and all must name the same. In rounds:
//! each *reports* whom it prefers and waits for reports of all but those that may be dead. If more than
//! half of all members prefer the same, it *proposes* that one, else nobody, and waits for proposals in
//! the same way. Enough proposals for one: decided. At least one: prefer that. None: prefer whom you
//! preferred (`flp`), or throw a coin (`ben-or`).
//!
//! The adversary sees every message and chooses when it arrives. It holds back just those reports that
//! would make a majority, until the round is over without them. Nobody ever dies, every message arrives,
//! and round follows round for ever. Against the coin that is of no use: once all coins have fallen on
//! the same side, every report says the same, and all of them cannot be held back for ever.

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

const AGREEMENT: &str = "all who decide decide the same";
const PROMISES: &[Promise] = &[Promise::Own(AGREEMENT), Promise::SomebodyLeads];

pub(super) const FLP: Algorithm = Algorithm {
    name: "flp",
    about: "consensus by rounds, without dice, against an adversary that chooses when messages arrive",
    origin: "Fischer, Lynch and Paterson 1985",
    promises: PROMISES,
    contenders: 3,
    patience: None,
    cast: |setup| cast(setup, Rule::Keep),
};

pub(super) const BEN_OR: Algorithm = Algorithm {
    name: "ben-or",
    about: "the same consensus against the same adversary, but who cannot tell throws a coin",
    origin: "Ben-Or 1983",
    promises: PROMISES,
    contenders: 3,
    patience: None,
    cast: |setup| cast(setup, Rule::Coin),
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "flp-stall",
        algorithm: &FLP,
        about: "Nobody dies and every message arrives, but the decisive ones always too late. Round follows round; nothing wrong is decided, and nothing is decided.",
        lasts: Duration::from_secs(20),
        script: "at 0s delay 5ms..10ms\n",
        breaks: &[Promise::SomebodyLeads],
    },
    Scenario {
        name: "flp-relief",
        algorithm: &FLP,
        about: "The adversary dies, the network is an ordinary one, and it is soon decided: impossible means that one cannot promise it, not that it does not happen.",
        lasts: Duration::from_secs(20),
        script: "at 0s delay 5ms..10ms\nat 10s crash adversary\n",
        breaks: &[],
    },
    Scenario {
        name: "ben-or-coin",
        algorithm: &BEN_OR,
        about: "The adversary holds back the decisive messages as before. Sooner or later all coins fall on the same side, and it has no message left that is not decisive.",
        lasts: Duration::from_secs(20),
        script: "at 0s delay 5ms..10ms\n",
        breaks: &[],
    },
];

/// The adversary lets a message wait for so long. A round is over by then.
const HELD_BACK: Duration = ms(200);
/// The first round begins when all are there: what is said to nobody is lost, and here nothing is.
const BEGIN: Duration = ms(1);
/// Who leads says so again, for those who were not there.
const REPEAT: Duration = ms(500);

/// One of the two candidates: their numbers are 0 and 1.
type Choice = NodeId;

/// Whom to prefer if nobody proposes anybody.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// Whom one preferred before.
    Keep,
    /// Whom the coin says.
    Coin,
}

#[derive(Clone, Debug)]
enum Say {
    Report(u64, Choice),
    Propose(u64, Option<Choice>),
    Decided(Choice),
}

impl fmt::Display for Say {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |choice: &Choice| if *choice == 0 { "a" } else { "b" };
        match self {
            Say::Report(round, choice) => write!(f, "round {round}: I prefer {}", name(choice)),
            Say::Propose(round, Some(choice)) => {
                write!(f, "round {round}: I propose {}", name(choice))
            }
            Say::Propose(round, None) => write!(f, "round {round}: I propose nobody"),
            Say::Decided(choice) => write!(f, "{} it is", name(choice)),
        }
    }
}

impl Word for Say {
    fn kind(&self) -> &'static str {
        match self {
            Say::Report(..) => "report",
            Say::Propose(..) => "propose",
            Say::Decided(_) => "decided",
        }
    }
}

/// What was said in one round, by whom.
#[derive(Debug, Default)]
struct Round {
    reports: BTreeMap<NodeId, Choice>,
    proposals: BTreeMap<NodeId, Option<Choice>>,
}

/// What only somebody outside can see.
#[derive(Debug, Default)]
struct Minds {
    /// Whom each prefers.
    preferences: BTreeMap<NodeId, Choice>,
    /// Who was decided on, by anybody.
    decided: BTreeSet<Choice>,
}

#[derive(Debug)]
struct Member {
    rule: Rule,
    me: NodeId,
    minds: Rc<RefCell<Minds>>,
    /// On disk: who comes back must not say something else in a round than it said before.
    round: u64,
    prefers: Choice,
    proposes: Option<Option<Choice>>,
    decided: Option<Choice>,
    heard: BTreeMap<u64, Round>,
}

impl Member {
    /// So many must be heard: all but those that may be dead.
    fn enough(scene: &Scene<'_, Say>) -> usize {
        scene.majority()
    }

    fn report(&mut self, scene: &mut Scene<'_, Say>) {
        self.minds.borrow_mut().preferences.insert(self.me, self.prefers);
        scene.broadcast(&Say::Report(self.round, self.prefers));
        self.heard.entry(self.round).or_default().reports.insert(scene.me, self.prefers);
    }

    fn propose(&mut self, scene: &mut Scene<'_, Say>) {
        let reports = &self.heard.entry(self.round).or_default().reports;
        let prefer = |choice| reports.values().filter(|report| **report == choice).count();
        let choice = [0, 1].into_iter().find(|choice| prefer(*choice) >= scene.majority());
        self.proposes = Some(choice);
        scene.broadcast(&Say::Propose(self.round, choice));
        self.heard.entry(self.round).or_default().proposals.insert(scene.me, choice);
    }

    fn conclude(&mut self, scene: &mut Scene<'_, Say>) {
        let proposals = &self.heard.entry(self.round).or_default().proposals;
        let named: Vec<Choice> = proposals.values().copied().flatten().collect();
        // Two majorities of one round have a member in common: all that are named are the same.
        let maybe_dead = scene.contenders().count() - Member::enough(scene);
        match (named.first(), self.rule) {
            (Some(choice), _) if named.len() > maybe_dead => return self.decide(*choice, scene),
            (Some(choice), _) => self.prefers = *choice,
            (None, Rule::Keep) => {}
            (None, Rule::Coin) => self.prefers = scene.dice().below(2),
        }
        self.judge(scene);
        self.round += 1;
        self.proposes = None;
        self.heard = self.heard.split_off(&self.round);
        self.report(scene);
    }

    /// Goes on for as long as enough was heard.
    fn go_on(&mut self, scene: &mut Scene<'_, Say>) {
        while self.decided.is_none() {
            let heard = self.heard.entry(self.round).or_default();
            if self.proposes.is_none() && heard.reports.len() >= Member::enough(scene) {
                self.propose(scene);
            } else if self.proposes.is_some() && heard.proposals.len() >= Member::enough(scene) {
                self.conclude(scene);
            } else {
                return;
            }
        }
    }

    fn decide(&mut self, choice: Choice, scene: &mut Scene<'_, Say>) {
        self.decided = Some(choice);
        self.minds.borrow_mut().decided.insert(choice);
        self.judge(scene);
        self.act(scene);
    }

    fn judge(&self, scene: &mut Scene<'_, Say>) {
        if self.minds.borrow().decided.len() > 1 {
            scene.broke(AGREEMENT, "both were decided on");
        } else {
            scene.kept(AGREEMENT);
        }
    }

    /// Does what was decided.
    fn act(&mut self, scene: &mut Scene<'_, Say>) {
        let Some(choice) = self.decided else { return };
        scene.broadcast(&Say::Decided(choice));
        if choice == scene.me {
            scene.lead(None);
            scene.alarm("repeat", REPEAT);
        }
    }
}

impl Program<Say> for Member {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        self.heard.clear();
        if self.decided.is_some() {
            return self.act(scene);
        }
        scene.alarm("begin", BEGIN);
    }

    fn receive(&mut self, from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match (word, self.decided) {
            (Say::Decided(choice), None) => self.decide(choice, scene),
            (Say::Decided(_), Some(_)) => {}
            (_, Some(choice)) => scene.send(from, Say::Decided(choice)),
            (Say::Report(round, choice), None) if round >= self.round => {
                self.heard.entry(round).or_default().reports.insert(from, choice);
            }
            (Say::Propose(round, choice), None) if round >= self.round => {
                self.heard.entry(round).or_default().proposals.insert(from, choice);
            }
            // Of a round that is over.
            (Say::Report(..) | Say::Propose(..), None) => {}
        }
        self.go_on(scene);
    }

    fn ring(&mut self, _: &'static str, scene: &mut Scene<'_, Say>) {
        if let Some(choice) = self.decided {
            scene.broadcast(&Say::Decided(choice));
            scene.alarm("repeat", REPEAT);
            return;
        }
        self.report(scene);
        if let Some(proposal) = self.proposes {
            scene.broadcast(&Say::Propose(self.round, proposal));
            self.heard.entry(self.round).or_default().proposals.insert(scene.me, proposal);
        }
    }

    fn view(&self) -> View {
        let part = match self.decided {
            None => Part::Candidate,
            Some(choice) if choice == self.me => Part::Leader,
            Some(_) => Part::Follower,
        };
        View::new(part)
            .leader(self.decided)
            .fact("round", self.round)
            .fact("prefers", if self.prefers == 0 { "a" } else { "b" })
    }
}

/// The stage's process of that name.
#[derive(Debug)]
struct Idle;

impl Program<Say> for Idle {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        scene.say("chooses when messages arrive");
    }

    fn receive(&mut self, _: NodeId, _: Say, _: &mut Scene<'_, Say>) {}

    fn view(&self) -> View {
        View::default()
    }
}

/// What the adversary knows.
#[derive(Debug)]
struct Schedule {
    members: usize,
    minds: Rc<RefCell<Minds>>,
    /// How many reports of each kind it has let through, by round and receiver.
    let_through: BTreeMap<(u64, NodeId), [usize; 2]>,
}

impl Schedule {
    /// Holds back a report that would make a majority, together with what the receiver prefers itself.
    fn hold_up(&mut self, to: NodeId, word: &Say) -> Duration {
        let Say::Report(round, choice) = word else { return Duration::ZERO };
        let own = self.minds.borrow().preferences.get(&to) == Some(choice);
        let heard = &mut self.let_through.entry((*round, to)).or_default()[*choice as usize];
        if *heard + usize::from(own) + 1 > self.members / 2 {
            return HELD_BACK;
        }
        *heard += 1;
        Duration::ZERO
    }
}

fn cast(setup: &Setup, rule: Rule) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Open);
    let minds = Rc::new(RefCell::new(Minds::default()));
    for me in 0..setup.contenders as NodeId {
        let prefers = me % 2;
        minds.borrow_mut().preferences.insert(me, prefers);
        stage.contender(Member {
            rule,
            me,
            minds: Rc::clone(&minds),
            round: 1,
            prefers,
            proposes: None,
            decided: None,
            heard: BTreeMap::new(),
        });
    }
    let adversary = stage.server("adversary", Idle);
    let mut schedule = Schedule { members: setup.contenders, minds, let_through: BTreeMap::new() };
    stage.set_adversary(adversary, Box::new(move |_, to, word| schedule.hold_up(to, word)));
    Box::new(stage)
}
