//! Ring: an election goes round, and everybody who lives signs it.
//!
//! Who misses the leader sends ELECTION with its own number to its neighbour. Each adds its number and
//! passes it on; a neighbour that does not confirm in time is skipped. When it is back where it has been
//! before, the highest on the list is the coordinator, and everybody is told.
//!
//! There is one token, and it takes its time: whoever dies with it in hand takes the election along, and
//! all wait until they stop waiting. And as with the bully, whoever does not answer is taken for dead: a
//! network that is cut in two is two rings.

use std::{fmt, time::Duration};

use super::{Algorithm, Scenario, Setup};
use crate::{
    engine::ms,
    stage::{Gate, NodeId, Part, Play, Program, Promise, Scene, Stage, View, Word},
};

/// So long at most, if nobody dies with the token in hand.
const AWAY_MAX: Promise = Promise::VacantAtMost(ms(1500));

pub(super) const RING: Algorithm = Algorithm {
    name: "ring",
    about: "an election is passed from neighbour to neighbour; the highest who signed it leads",
    origin: "Chang and Roberts 1979, Le Lann 1977",
    promises: &[Promise::OneBeliever, Promise::OneWriter, Promise::SomebodyLeads, AWAY_MAX],
    contenders: 5,
    patience: Some(ms(4000)),
    cast,
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "ring-crash",
        algorithm: &RING,
        about: "The leader dies, the election goes round without it, and the highest left leads. When the old leader is back it follows.",
        lasts: Duration::from_secs(10),
        script: "at 2s crash e for 4s\n",
        breaks: &[],
    },
    Scenario {
        name: "ring-token",
        algorithm: &RING,
        about: "The leader dies, and then somebody with the election in its hands. All others wait for an outcome that nobody will tell them, and only then begin again.",
        lasts: Duration::from_secs(10),
        script: "at 2s crash e\nat 2.75s crash d\n",
        breaks: &[AWAY_MAX],
    },
    Scenario {
        name: "ring-partition",
        algorithm: &RING,
        about: "The network is cut in two, and each half closes to a ring with a leader of its own.",
        lasts: Duration::from_secs(10),
        script: "at 2s split a b | c d e for 5s\n",
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

/// The leader says that it lives so often.
const HEARTBEAT: Duration = ms(100);
/// Who has heard nothing for so long takes the leader for dead.
const SILENCE: Duration = ms(500);
/// And so much later for each number, that not all begin an election at once.
const STAGGER: Duration = ms(150);
/// It takes a member so long to sign and pass on.
const SIGN: Duration = ms(100);
/// A neighbour that lives confirms within this time, or so one hopes.
const CONFIRM: Duration = ms(100);
/// Whoever has signed waits for the outcome so long for each member.
const OUTCOME: Duration = ms(200);

#[derive(Clone, Debug)]
enum Say {
    /// With everybody who has signed.
    Election(Vec<NodeId>),
    Confirm,
    Coordinator(NodeId),
    Heartbeat,
}

impl fmt::Display for Say {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Say::Election(signed) => write!(f, "election, signed by {}", names(signed)),
            Say::Confirm => f.write_str("I have it"),
            Say::Coordinator(leader) => write!(f, "{} is the coordinator", names(&[*leader])),
            Say::Heartbeat => f.write_str("I am still here"),
        }
    }
}

/// As the stage names its contenders.
fn names(signed: &[NodeId]) -> String {
    let name = |id: &NodeId| match u8::try_from(*id) {
        Ok(id @ 0..26) => char::from(b'a' + id).to_string(),
        _ => format!("n{id}"),
    };
    signed.iter().map(name).collect::<Vec<_>>().join(", ")
}

impl Word for Say {
    fn kind(&self) -> &'static str {
        match self {
            Say::Election(_) => "election",
            Say::Confirm => "confirm",
            Say::Coordinator(_) => "coordinator",
            Say::Heartbeat => "heartbeat",
        }
    }

    fn is_routine(&self) -> bool {
        matches!(self, Say::Heartbeat)
    }
}

#[derive(Debug, Default)]
struct Ring {
    part: Part,
    leader: Option<NodeId>,
    /// The election in its hands.
    token: Option<Vec<NodeId>>,
    /// To whom it tries to pass it on.
    neighbour: Option<NodeId>,
}

impl Ring {
    fn watch(scene: &mut Scene<'_, Say>) {
        scene.alarm("silence", SILENCE + STAGGER * scene.me as u32);
    }

    fn begin(&mut self, scene: &mut Scene<'_, Say>) {
        self.token = Some(vec![scene.me]);
        self.neighbour = None;
        self.await_outcome(scene);
        self.pass_on(scene);
    }

    fn await_outcome(&mut self, scene: &mut Scene<'_, Say>) {
        self.part = Part::Candidate;
        self.leader = None;
        let members = scene.contenders().count() as u32;
        scene.alarm("silence", OUTCOME * members + STAGGER * scene.me as u32);
    }

    /// Offers the token to the next in the ring, after the one that did not confirm.
    fn pass_on(&mut self, scene: &mut Scene<'_, Say>) {
        let Some(signed) = self.token.clone() else { return };
        let members = scene.contenders().count() as NodeId;
        let next = (self.neighbour.unwrap_or(scene.me) + 1) % members;
        if next == scene.me {
            // All others are dead, as far as it can tell.
            self.token = None;
            return self.announce(&signed, scene);
        }
        self.neighbour = Some(next);
        scene.send(next, Say::Election(signed));
        scene.alarm("confirm", CONFIRM);
    }

    fn take(&mut self, from: NodeId, mut signed: Vec<NodeId>, scene: &mut Scene<'_, Say>) {
        scene.send(from, Say::Confirm);
        if signed.contains(&scene.me) {
            return self.announce(&signed, scene);
        }
        // One at a time: of two elections that go round, one is enough.
        if self.part == Part::Leader || self.token.is_some() {
            return;
        }
        signed.push(scene.me);
        self.token = Some(signed);
        self.neighbour = None;
        self.await_outcome(scene);
        scene.alarm("sign", SIGN);
    }

    fn announce(&mut self, signed: &[NodeId], scene: &mut Scene<'_, Say>) {
        let highest = signed.iter().copied().max().unwrap_or(scene.me);
        scene.broadcast(&Say::Coordinator(highest));
        self.follow(highest, scene);
    }

    fn follow(&mut self, leader: NodeId, scene: &mut Scene<'_, Say>) {
        self.leader = Some(leader);
        if leader != scene.me {
            self.part = Part::Follower;
            scene.step_down();
            scene.cancel("heartbeat");
            Ring::watch(scene);
        } else if self.part != Part::Leader {
            self.part = Part::Leader;
            scene.cancel("silence");
            scene.lead(None);
            scene.broadcast(&Say::Heartbeat);
            scene.alarm("heartbeat", HEARTBEAT);
        }
    }
}

impl Program<Say> for Ring {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        *self = Ring::default();
        Ring::watch(scene);
    }

    fn receive(&mut self, from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        match word {
            Say::Election(signed) => self.take(from, signed, scene),
            Say::Confirm if self.neighbour == Some(from) => {
                self.token = None;
                self.neighbour = None;
                scene.cancel("confirm");
            }
            Say::Confirm => {}
            Say::Coordinator(leader) => self.follow(leader, scene),
            // Of two leaders the higher stays.
            Say::Heartbeat if self.part == Part::Leader && from < scene.me => {}
            Say::Heartbeat if self.leader.is_none_or(|leader| leader <= from) => {
                self.follow(from, scene);
            }
            Say::Heartbeat => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "heartbeat" if self.part == Part::Leader => {
                scene.broadcast(&Say::Heartbeat);
                scene.alarm("heartbeat", HEARTBEAT);
            }
            "sign" | "confirm" => self.pass_on(scene),
            "silence" => {
                scene.detect();
                self.begin(scene);
            }
            _ => {}
        }
    }

    fn view(&self) -> View {
        let view = View::new(self.part).leader(self.leader);
        match &self.token {
            Some(signed) => view.fact("election", names(signed)),
            None => view,
        }
    }
}

fn cast(setup: &Setup) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Open);
    for _ in 0..setup.contenders {
        stage.contender(Ring::default());
    }
    Box::new(stage)
}
