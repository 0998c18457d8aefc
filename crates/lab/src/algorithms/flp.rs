//! FLP (Fischer, Lynch, Paterson 1985): no deterministic consensus ends in every run, if a message may
//! take any time and one process may fail. And Ben-Or (1983): with a coin it ends, with probability one.
//!
//! Two candidates, `a` and `b`; every process prefers one of them, and all must name the same. In rounds: each process
//! *reports* its preference and waits for the reports of all but those that may be dead. If more than half of all prefer
//! the same, it *proposes* that one, else none, and waits for proposals in the same way. Enough proposals for one:
//! decided. At least one: prefer that. None: keep the preference (`flp`), or throw a coin (`ben-or`).
//!
//! The adversary sees every message and chooses when it arrives. It holds back just those reports that would make a
//! majority, until the round is over without them. No process ever dies, every message arrives, and round follows round
//! for ever. Against the coin that fails: once all coins have fallen on the same side, all reports are the same, and
//! they cannot all be held back for ever.

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

const AGREEMENT: &str = "all decisions are the same";
const PROMISES: &[Promise] = &[Promise::Own(AGREEMENT), Promise::LeaderAtEnd];

pub(super) const FLP: Algorithm = Algorithm {
    name: "flp",
    about: "consensus by rounds, without randomness, against an adversary that chooses when messages arrive",
    origin: "Fischer, Lynch and Paterson 1985",
    promises: PROMISES,
    contenders: 3,
    patience: None,
    build: |setup| build(setup, Rule::Keep),
};

pub(super) const BEN_OR: Algorithm = Algorithm {
    name: "ben-or",
    about: "the same consensus against the same adversary, but an undecided process throws a coin",
    origin: "Ben-Or 1983",
    promises: PROMISES,
    contenders: 3,
    patience: None,
    build: |setup| build(setup, Rule::Coin),
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "flp-stall",
        algorithm: &FLP,
        about: "No process dies and every message arrives, but the decisive ones always too late. Round follows round; nothing wrong is decided, and nothing is decided.",
        lasts: Duration::from_secs(20),
        script: "at 0s delay 5ms..10ms\n",
        breaks: &[Promise::LeaderAtEnd],
    },
    Story {
        name: "flp-relief",
        algorithm: &FLP,
        about: "The adversary dies, the network is an ordinary one, and it is soon decided: impossible means that it cannot be promised, not that it does not happen.",
        lasts: Duration::from_secs(20),
        script: "at 0s delay 5ms..10ms\nat 10s crash adversary\n",
        breaks: &[],
    },
    Story {
        name: "ben-or-coin",
        algorithm: &BEN_OR,
        about: "The adversary holds back the decisive messages as before. Sooner or later all coins fall on the same side, and it has no message left that is not decisive.",
        lasts: Duration::from_secs(20),
        script: "at 0s delay 5ms..10ms\n",
        breaks: &[],
    },
];

/// The delay of a message that is held back. A round is over by then.
const HELD_BACK: Duration = ms(200);
/// The first round begins when all processes run: a message to a process that does not run is lost.
const BEGIN: Duration = ms(1);
/// How often the leader repeats the decision, for processes that were down.
const REPEAT: Duration = ms(500);

/// One of the two candidates: their numbers are 0 and 1.
type Choice = ProcessId;

/// The preference after a round without proposals.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// The previous preference.
    Keep,
    /// The coin.
    Coin,
}

#[derive(Clone, Debug)]
enum FlpMessage {
    Report(u64, Choice),
    Propose(u64, Option<Choice>),
    Decided(Choice),
}

impl fmt::Display for FlpMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |choice: &Choice| if *choice == 0 { "a" } else { "b" };
        match self {
            FlpMessage::Report(round, choice) => {
                write!(f, "round {round}: I prefer {}", name(choice))
            }
            FlpMessage::Propose(round, Some(choice)) => {
                write!(f, "round {round}: I propose {}", name(choice))
            }
            FlpMessage::Propose(round, None) => write!(f, "round {round}: I propose none"),
            FlpMessage::Decided(choice) => write!(f, "{} it is", name(choice)),
        }
    }
}

impl ProtocolMessage for FlpMessage {
    fn kind(&self) -> &'static str {
        match self {
            FlpMessage::Report(..) => "report",
            FlpMessage::Propose(..) => "propose",
            FlpMessage::Decided(_) => "decided",
        }
    }
}

/// The reports and proposals of one round, by sender.
#[derive(Debug, Default)]
struct Round {
    reports: BTreeMap<ProcessId, Choice>,
    proposals: BTreeMap<ProcessId, Option<Choice>>,
}

/// What only an outside observer can see.
#[derive(Debug, Default)]
struct GlobalView {
    /// The preference of each process.
    preferences: BTreeMap<ProcessId, Choice>,
    /// The decisions of all processes.
    decided: BTreeSet<Choice>,
}

#[derive(Debug)]
struct FlpProcess {
    rule: Rule,
    me: ProcessId,
    global: Rc<RefCell<GlobalView>>,
    /// On disk: a process that restarts must not contradict its earlier messages of a round.
    round: u64,
    prefers: Choice,
    proposes: Option<Option<Choice>>,
    decided: Option<Choice>,
    heard: BTreeMap<u64, Round>,
}

impl FlpProcess {
    /// How many messages are waited for: all but those of processes that may be dead.
    fn enough(context: &Context<'_, FlpMessage>) -> usize {
        context.majority()
    }

    fn report(&mut self, context: &mut Context<'_, FlpMessage>) {
        self.global.borrow_mut().preferences.insert(self.me, self.prefers);
        context.broadcast(&FlpMessage::Report(self.round, self.prefers));
        self.heard.entry(self.round).or_default().reports.insert(context.me, self.prefers);
    }

    fn propose(&mut self, context: &mut Context<'_, FlpMessage>) {
        let reports = &self.heard.entry(self.round).or_default().reports;
        let prefer = |choice| reports.values().filter(|report| **report == choice).count();
        let choice = [0, 1].into_iter().find(|choice| prefer(*choice) >= context.majority());
        self.proposes = Some(choice);
        context.broadcast(&FlpMessage::Propose(self.round, choice));
        self.heard.entry(self.round).or_default().proposals.insert(context.me, choice);
    }

    fn conclude(&mut self, context: &mut Context<'_, FlpMessage>) {
        let proposals = &self.heard.entry(self.round).or_default().proposals;
        let named: Vec<Choice> = proposals.values().copied().flatten().collect();
        // Two majorities of one round overlap: all proposals are the same.
        let maybe_dead = context.contenders().count() - FlpProcess::enough(context);
        match (named.first(), self.rule) {
            (Some(choice), _) if named.len() > maybe_dead => return self.decide(*choice, context),
            (Some(choice), _) => self.prefers = *choice,
            (None, Rule::Keep) => {}
            (None, Rule::Coin) => self.prefers = context.dice().below(2),
        }
        self.check(context);
        self.round += 1;
        self.proposes = None;
        self.heard = self.heard.split_off(&self.round);
        self.report(context);
    }

    /// Proceeds for as long as enough messages have arrived.
    fn go_on(&mut self, context: &mut Context<'_, FlpMessage>) {
        while self.decided.is_none() {
            let heard = self.heard.entry(self.round).or_default();
            if self.proposes.is_none() && heard.reports.len() >= FlpProcess::enough(context) {
                self.propose(context);
            } else if self.proposes.is_some()
                && heard.proposals.len() >= FlpProcess::enough(context)
            {
                self.conclude(context);
            } else {
                return;
            }
        }
    }

    fn decide(&mut self, choice: Choice, context: &mut Context<'_, FlpMessage>) {
        self.decided = Some(choice);
        self.global.borrow_mut().decided.insert(choice);
        self.check(context);
        self.act(context);
    }

    fn check(&self, context: &mut Context<'_, FlpMessage>) {
        if self.global.borrow().decided.len() > 1 {
            context.broke(AGREEMENT, "both candidates were decided on");
        } else {
            context.kept(AGREEMENT);
        }
    }

    /// Acts on the decision.
    fn act(&mut self, context: &mut Context<'_, FlpMessage>) {
        let Some(choice) = self.decided else { return };
        context.broadcast(&FlpMessage::Decided(choice));
        if choice == context.me {
            context.lead(None);
            context.alarm("repeat", REPEAT);
        }
    }
}

impl Actor<FlpMessage> for FlpProcess {
    fn start(&mut self, context: &mut Context<'_, FlpMessage>) {
        self.heard.clear();
        if self.decided.is_some() {
            return self.act(context);
        }
        context.alarm("begin", BEGIN);
    }

    fn receive(
        &mut self,
        from: ProcessId,
        message: FlpMessage,
        context: &mut Context<'_, FlpMessage>,
    ) {
        match (message, self.decided) {
            (FlpMessage::Decided(choice), None) => self.decide(choice, context),
            (FlpMessage::Decided(_), Some(_)) => {}
            (_, Some(choice)) => context.send(from, FlpMessage::Decided(choice)),
            (FlpMessage::Report(round, choice), None) if round >= self.round => {
                self.heard.entry(round).or_default().reports.insert(from, choice);
            }
            (FlpMessage::Propose(round, choice), None) if round >= self.round => {
                self.heard.entry(round).or_default().proposals.insert(from, choice);
            }
            // A message of a past round.
            (FlpMessage::Report(..) | FlpMessage::Propose(..), None) => {}
        }
        self.go_on(context);
    }

    fn ring(&mut self, _: &'static str, context: &mut Context<'_, FlpMessage>) {
        if let Some(choice) = self.decided {
            context.broadcast(&FlpMessage::Decided(choice));
            context.alarm("repeat", REPEAT);
            return;
        }
        self.report(context);
        if let Some(proposal) = self.proposes {
            context.broadcast(&FlpMessage::Propose(self.round, proposal));
            self.heard.entry(self.round).or_default().proposals.insert(context.me, proposal);
        }
    }

    fn view(&self) -> ProcessView {
        let role = match self.decided {
            None => ProcessRole::Candidate,
            Some(choice) if choice == self.me => ProcessRole::Leader,
            Some(_) => ProcessRole::Follower,
        };
        ProcessView::new(role)
            .leader(self.decided)
            .fact("round", self.round)
            .fact("prefers", if self.prefers == 0 { "a" } else { "b" })
    }
}

/// The adversary's process on the stage.
#[derive(Debug)]
struct Idle;

impl Actor<FlpMessage> for Idle {
    fn start(&mut self, context: &mut Context<'_, FlpMessage>) {
        context.say("chooses when messages arrive");
    }

    fn receive(&mut self, _: ProcessId, _: FlpMessage, _: &mut Context<'_, FlpMessage>) {}

    fn view(&self) -> ProcessView {
        ProcessView::default()
    }
}

/// What the adversary knows.
#[derive(Debug)]
struct Schedule {
    members: usize,
    global: Rc<RefCell<GlobalView>>,
    /// How many reports of each kind were let through, by round and receiver.
    let_through: BTreeMap<(u64, ProcessId), [usize; 2]>,
}

impl Schedule {
    /// Holds back a report that would make a majority, together with the receiver's own preference.
    fn added_delay(&mut self, to: ProcessId, message: &FlpMessage) -> Duration {
        let FlpMessage::Report(round, choice) = message else { return Duration::ZERO };
        let own = self.global.borrow().preferences.get(&to) == Some(choice);
        let heard = &mut self.let_through.entry((*round, to)).or_default()[*choice as usize];
        if *heard + usize::from(own) + 1 > self.members / 2 {
            return HELD_BACK;
        }
        *heard += 1;
        Duration::ZERO
    }
}

fn build(setup: &Setup, rule: Rule) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Open);
    let global = Rc::new(RefCell::new(GlobalView::default()));
    for me in 0..setup.contenders as ProcessId {
        let prefers = me % 2;
        global.borrow_mut().preferences.insert(me, prefers);
        stage.add_contender(FlpProcess {
            rule,
            me,
            global: Rc::clone(&global),
            round: 1,
            prefers,
            proposes: None,
            decided: None,
            heard: BTreeMap::new(),
        });
    }
    let adversary = stage.add_server("adversary", Idle);
    let mut schedule = Schedule { members: setup.contenders, global, let_through: BTreeMap::new() };
    stage.set_adversary(
        adversary,
        Box::new(move |_, to, message| schedule.added_delay(to, message)),
    );
    Box::new(stage)
}
