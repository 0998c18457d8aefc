//! A replica that nobody asks for anything: it elects, or is elected.

use std::{collections::BTreeMap, fmt, time::Duration};

use tenure_api::{MemberId, Term};
use tenure_replica::{Effects, Input, Message, Moment, Notice, RaftKind, Role};

use super::{super::Setup, house::House};
use crate::stage::{Gate, NodeId, Part, Play, Program, Scene, Stage, View, Word};

/// A leader is deposed only if it has lost the majority.
pub(super) const IN_TOUCH: &str = "who hears from a majority stays in office";

/// What differs between the ways to run it.
#[derive(Debug)]
pub(super) struct Preset {
    pub(super) tick: Duration,
    pub(super) heartbeat: Duration,
    pub(super) election_timeout: Duration,
    pub(super) pre_vote: bool,
    pub(super) random_timeouts: bool,
    /// Whether it is told when connections open and close.
    pub(super) hears_of_ends: bool,
}

#[derive(Clone, Debug)]
pub(in crate::algorithms) struct Say(pub(in crate::algorithms) Message);

impl fmt::Display for Say {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Message::Raft(message) => {
                let refusal = if message.reject { ", refused" } else { "" };
                write!(f, "{}, term {}{refusal}", self.kind(), message.term)
            }
            Message::Forward(batch) => write!(f, "a batch of {} bytes for the log", batch.len()),
            Message::Audited(index, _) => write!(f, "what I hold at {index}"),
        }
    }
}

impl Word for Say {
    fn kind(&self) -> &'static str {
        match &self.0 {
            Message::Forward(_) => "forward",
            Message::Audited(..) => "audited",
            Message::Raft(message) => match message.kind {
                RaftKind::Append => "append",
                RaftKind::AppendResponse => "append response",
                RaftKind::RequestVote => "request vote",
                RaftKind::RequestVoteResponse => "vote",
                RaftKind::Snapshot => "snapshot",
                RaftKind::Heartbeat => "heartbeat",
                RaftKind::HeartbeatResponse => "heartbeat response",
                RaftKind::TransferLeader => "transfer leader",
                RaftKind::TimeoutNow => "timeout now",
                RaftKind::ReadIndex => "read index",
                RaftKind::ReadIndexResponse => "read index response",
                RaftKind::RequestPreVote => "request pre-vote",
                RaftKind::RequestPreVoteResponse => "pre-vote",
            },
        }
    }

    fn is_routine(&self) -> bool {
        let Message::Raft(message) = &self.0 else { return true };
        matches!(message.kind, RaftKind::Heartbeat | RaftKind::HeartbeatResponse)
    }
}

impl Say {
    /// Whether a follower says that it follows in that term.
    fn answers(&self, term: Term) -> bool {
        let Message::Raft(message) = &self.0 else { return false };
        let follows =
            matches!(message.kind, RaftKind::AppendResponse | RaftKind::HeartbeatResponse);
        follows && message.term == term
    }
}

struct Member {
    house: House,
    hears_of_ends: bool,
    role: Role,
    term: Term,
    leader: Option<MemberId>,
    /// When its followers last answered it.
    answered: BTreeMap<NodeId, Moment>,
    /// When it last noticed that it had stood still.
    resumed: Option<Moment>,
}

impl Member {
    /// One round of the replica's loop.
    fn call(&mut self, inputs: Vec<Input>, scene: &mut Scene<'_, Say>) {
        let effects = self.house.call(inputs, scene);
        let status = self.house.replica().expect("it was just called").status();
        self.notice(&effects, scene);
        let before = (self.role, self.term);
        (self.role, self.term, self.leader) = (status.role, status.term, status.leader);
        self.judge(before, scene);
        self.house.carry_out(effects, scene, Say);
    }

    fn notice(&mut self, effects: &Effects, scene: &mut Scene<'_, Say>) {
        for notice in &effects.notices {
            match notice {
                Notice::Paused(_) => {
                    self.answered.clear();
                    self.resumed = Some(scene.now());
                }
                Notice::LeaderLost(_) => scene.detect(),
                _ => {}
            }
        }
    }

    /// Its office, as it changes.
    fn judge(&mut self, (role, term): (Role, Term), scene: &mut Scene<'_, Say>) {
        if (self.role, self.term) == (role, term) {
            return;
        }
        if role == Role::Leader {
            scene.step_down();
            let (now, patience) = (scene.now(), self.house.config().election_timeout);
            let lately = self.answered.values().filter(|at| now.since(**at) < patience).count();
            if self.term > term && lately + 1 >= scene.majority() {
                let how = format!("the leader of term {term} was deposed by term {}", self.term);
                scene.broke(IN_TOUCH, how);
            }
        }
        if role == Role::Follower && self.role == Role::Candidate {
            scene.detect();
        }
        if self.role == Role::Leader {
            scene.kept(IN_TOUCH);
            scene.lead(Some(self.term.0));
        }
    }
}

impl Program<Say> for Member {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        self.house.start(scene);
        (self.role, self.term, self.leader) = (Role::Follower, Term(0), None);
        self.answered.clear();
        self.resumed = None;
        self.call(vec![Input::Wake], scene);
    }

    fn receive(&mut self, from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        let answers = word.answers(self.term);
        self.call(vec![Input::Message(self.house.id(from), word.0)], scene);
        // What piled up while it stood still says nothing of who is in touch with it now.
        if answers && self.resumed != Some(scene.now()) {
            self.answered.insert(from, scene.now());
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        let inputs = self.house.ring(alarm);
        self.call(inputs, scene);
    }

    fn opened(&mut self, to: NodeId, scene: &mut Scene<'_, Say>) {
        if self.hears_of_ends {
            self.call(vec![Input::Connected(self.house.id(to))], scene);
        }
    }

    fn closed(&mut self, by: NodeId, scene: &mut Scene<'_, Say>) {
        if self.hears_of_ends {
            self.call(vec![Input::Lost(self.house.id(by))], scene);
        }
    }

    fn view(&self) -> View {
        let part = match self.role {
            Role::Follower => Part::Follower,
            Role::Candidate => Part::Candidate,
            Role::Leader => Part::Leader,
        };
        View::new(part).term(self.term.0).leader(self.leader.map(|leader| self.house.node(leader)))
    }
}

pub(super) fn cast(setup: &Setup, preset: &'static Preset) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Tokens);
    stage.connections = true;
    for number in 0..setup.contenders as NodeId {
        let mut house = House::new(number, 0, setup.contenders);
        let config = house.config();
        config.seed = setup.seed;
        config.tick = preset.tick;
        config.heartbeat = preset.heartbeat;
        config.election_timeout = preset.election_timeout;
        config.pre_vote = preset.pre_vote;
        config.random_timeouts = preset.random_timeouts;
        stage.contender(Member {
            house,
            hears_of_ends: preset.hears_of_ends,
            role: Role::Follower,
            term: Term(0),
            leader: None,
            answered: BTreeMap::new(),
            resumed: None,
        });
    }
    Box::new(stage)
}
