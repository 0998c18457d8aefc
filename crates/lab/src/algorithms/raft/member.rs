//! A replica without clients: it elects, or is elected.

use std::{collections::BTreeMap, fmt, time::Duration};

use tenure_api::{MemberId, Term};
use tenure_replica::{Effects, Input, Message, Moment, Notice, RaftKind, RaftRole};

use super::{super::Setup, host::StageMember};
use crate::stage::{
    Actor, AlgorithmRun, Context, ProcessId, ProcessRole, ProcessView, ProtocolMessage, Stage,
    StorageGate,
};

/// A leader is deposed only if it has lost the majority.
pub(super) const IN_TOUCH: &str = "a leader in touch with a majority stays leader";

/// What differs between the variants.
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
pub(in crate::algorithms) struct RaftStageMessage(pub(in crate::algorithms) Message);

impl fmt::Display for RaftStageMessage {
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

impl ProtocolMessage for RaftStageMessage {
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

impl RaftStageMessage {
    /// Whether a follower confirms that it follows in that term.
    fn answers(&self, term: Term) -> bool {
        let Message::Raft(message) = &self.0 else { return false };
        let follows =
            matches!(message.kind, RaftKind::AppendResponse | RaftKind::HeartbeatResponse);
        follows && message.term == term
    }
}

struct RaftProcess {
    host: StageMember,
    hears_of_ends: bool,
    role: RaftRole,
    term: Term,
    leader: Option<MemberId>,
    /// When its followers last answered it.
    answered: BTreeMap<ProcessId, Moment>,
    /// When it last noticed that it had been paused.
    resumed: Option<Moment>,
}

impl RaftProcess {
    /// One call of the replica.
    fn call(&mut self, inputs: Vec<Input>, context: &mut Context<'_, RaftStageMessage>) {
        let effects = self.host.call(inputs, context);
        let status = self.host.replica().expect("it was just called").status();
        self.notice(&effects, context);
        let before = (self.role, self.term);
        (self.role, self.term, self.leader) = (status.role, status.term, status.leader);
        self.check(before, context);
        self.host.carry_out(effects, context, RaftStageMessage);
    }

    fn notice(&mut self, effects: &Effects, context: &mut Context<'_, RaftStageMessage>) {
        for notice in &effects.notices {
            match notice {
                Notice::Paused(_) => {
                    self.answered.clear();
                    self.resumed = Some(context.now());
                }
                Notice::LeaderLost(_) => context.detect(),
                _ => {}
            }
        }
    }

    /// Follows the changes of its leadership.
    fn check(
        &mut self,
        (role, term): (RaftRole, Term),
        context: &mut Context<'_, RaftStageMessage>,
    ) {
        if (self.role, self.term) == (role, term) {
            return;
        }
        if role == RaftRole::Leader {
            context.step_down();
            let (now, patience) = (context.now(), self.host.config().election_timeout);
            let lately = self.answered.values().filter(|at| now.since(**at) < patience).count();
            if self.term > term && lately + 1 >= context.majority() {
                let how = format!("the leader of term {term} was deposed by term {}", self.term);
                context.broke(IN_TOUCH, how);
            }
        }
        if role == RaftRole::Follower && self.role == RaftRole::Candidate {
            context.detect();
        }
        if self.role == RaftRole::Leader {
            context.kept(IN_TOUCH);
            context.lead(Some(self.term.0));
        }
    }
}

impl Actor<RaftStageMessage> for RaftProcess {
    fn start(&mut self, context: &mut Context<'_, RaftStageMessage>) {
        self.host.start(context);
        (self.role, self.term, self.leader) = (RaftRole::Follower, Term(0), None);
        self.answered.clear();
        self.resumed = None;
        self.call(vec![Input::Wake], context);
    }

    fn receive(
        &mut self,
        from: ProcessId,
        message: RaftStageMessage,
        context: &mut Context<'_, RaftStageMessage>,
    ) {
        let answers = message.answers(self.term);
        self.call(vec![self.host.arrived(from, message.0, context.now())], context);
        // Messages that piled up during a pause do not show which followers are in touch now.
        if answers && self.resumed != Some(context.now()) {
            self.answered.insert(from, context.now());
        }
    }

    fn ring(&mut self, alarm: &'static str, context: &mut Context<'_, RaftStageMessage>) {
        let inputs = self.host.ring(alarm);
        self.call(inputs, context);
    }

    fn opened(&mut self, to: ProcessId, context: &mut Context<'_, RaftStageMessage>) {
        if self.hears_of_ends {
            self.call(vec![self.host.connection(to, true)], context);
        }
    }

    fn closed(&mut self, by: ProcessId, context: &mut Context<'_, RaftStageMessage>) {
        if self.hears_of_ends {
            self.call(vec![self.host.connection(by, false)], context);
        }
    }

    fn view(&self) -> ProcessView {
        let role = match self.role {
            RaftRole::Follower => ProcessRole::Follower,
            RaftRole::Candidate => ProcessRole::Candidate,
            RaftRole::Leader => ProcessRole::Leader,
        };
        ProcessView::new(role)
            .term(self.term.0)
            .leader(self.leader.map(|leader| self.host.process(leader.0)))
    }
}

pub(super) fn build(setup: &Setup, preset: &'static Preset) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Tokens);
    stage.connections = true;
    for number in 0..setup.contenders as ProcessId {
        let mut host = StageMember::new(number, 0, setup.contenders, setup.seed);
        let config = host.config();
        config.tick = preset.tick;
        config.heartbeat = preset.heartbeat;
        config.election_timeout = preset.election_timeout;
        config.pre_vote = preset.pre_vote;
        config.random_timeouts = preset.random_timeouts;
        stage.add_contender(RaftProcess {
            host,
            hears_of_ends: preset.hears_of_ends,
            role: RaftRole::Follower,
            term: Term(0),
            leader: None,
            answered: BTreeMap::new(),
            resumed: None,
        });
    }
    Box::new(stage)
}
