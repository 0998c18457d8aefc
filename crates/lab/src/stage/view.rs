//! The state of a process, as traces show it.

use serde_json::{Map, Value, json};

use super::ProcessId;

/// What a process does at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessRole {
    /// Nothing in particular.
    #[default]
    Idle,
    /// Follows a leader.
    Follower,
    /// Campaigns.
    Candidate,
    /// Believes to lead.
    Leader,
    /// Waits for its turn.
    Waiting,
    /// Serves other processes: a store, a lock server.
    Server,
}

impl ProcessRole {
    pub fn name(self) -> &'static str {
        match self {
            ProcessRole::Idle => "idle",
            ProcessRole::Follower => "follower",
            ProcessRole::Candidate => "candidate",
            ProcessRole::Leader => "leader",
            ProcessRole::Waiting => "waiting",
            ProcessRole::Server => "server",
        }
    }
}

/// One process's state, for traces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessView {
    pub role: ProcessRole,
    pub term: Option<u64>,
    /// The process that it takes for the leader.
    pub leader: Option<ProcessId>,
    pub token: Option<u64>,
    /// Anything else worth showing: a ballot, the end of a lease, a value.
    pub facts: Vec<(&'static str, Value)>,
}

impl ProcessView {
    pub fn new(role: ProcessRole) -> ProcessView {
        ProcessView { role, ..ProcessView::default() }
    }

    #[must_use]
    pub fn term(self, term: u64) -> ProcessView {
        ProcessView { term: Some(term), ..self }
    }

    #[must_use]
    pub fn leader(self, leader: Option<ProcessId>) -> ProcessView {
        ProcessView { leader, ..self }
    }

    #[must_use]
    pub fn token(self, token: Option<u64>) -> ProcessView {
        ProcessView { token, ..self }
    }

    #[must_use]
    pub fn fact(mut self, name: &'static str, value: impl Into<Value>) -> ProcessView {
        self.facts.push((name, value.into()));
        self
    }

    /// As text.
    pub(super) fn text(&self, name: impl Fn(ProcessId) -> String) -> String {
        let mut text = format!("is {}", self.role.name());
        if let Some(term) = self.term {
            text += &format!(", term {term}");
        }
        if let Some(leader) = self.leader {
            text += &format!(", leader {}", name(leader));
        }
        if let Some(token) = self.token {
            text += &format!(", token {token}");
        }
        for (fact, value) in &self.facts {
            text += &format!(", {fact} {value}");
        }
        text
    }

    pub(super) fn json(&self, name: impl Fn(ProcessId) -> String) -> Value {
        let mut object = Map::new();
        object.insert("role".into(), json!(self.role.name()));
        object.insert("term".into(), json!(self.term));
        object.insert("leader".into(), json!(self.leader.map(name)));
        object.insert("token".into(), json!(self.token));
        for (fact, value) in &self.facts {
            object.insert((*fact).into(), value.clone());
        }
        Value::Object(object)
    }
}
