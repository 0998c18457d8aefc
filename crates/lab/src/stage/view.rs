//! What a process looks like from outside: enough to draw it.

use serde_json::{Map, Value, json};

use super::NodeId;

/// What a process does at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Nothing in particular.
    #[default]
    Idle,
    /// Follows a leader.
    Follower,
    /// Wants to lead.
    Candidate,
    /// Believes to lead.
    Leader,
    /// Stands in line.
    Waiting,
    /// Serves others: a store, a lock server.
    Server,
}

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Part::Idle => "idle",
            Part::Follower => "follower",
            Part::Candidate => "candidate",
            Part::Leader => "leader",
            Part::Waiting => "waiting",
            Part::Server => "server",
        }
    }
}

/// One process's state, as shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    pub part: Part,
    pub term: Option<u64>,
    /// Whom it takes for the leader.
    pub leader: Option<NodeId>,
    pub token: Option<u64>,
    /// Whatever else is worth drawing: a ballot, a lease's end, a value.
    pub facts: Vec<(&'static str, Value)>,
}

impl View {
    pub fn new(part: Part) -> View {
        View { part, ..View::default() }
    }

    #[must_use]
    pub fn term(self, term: u64) -> View {
        View { term: Some(term), ..self }
    }

    #[must_use]
    pub fn leader(self, leader: Option<NodeId>) -> View {
        View { leader, ..self }
    }

    #[must_use]
    pub fn token(self, token: Option<u64>) -> View {
        View { token, ..self }
    }

    #[must_use]
    pub fn fact(mut self, name: &'static str, value: impl Into<Value>) -> View {
        self.facts.push((name, value.into()));
        self
    }

    /// In plain words.
    pub(super) fn text(&self, name: impl Fn(NodeId) -> String) -> String {
        let mut text = format!("is {}", self.part.name());
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

    pub(super) fn json(&self, name: impl Fn(NodeId) -> String) -> Value {
        let mut object = Map::new();
        object.insert("role".into(), json!(self.part.name()));
        object.insert("term".into(), json!(self.term));
        object.insert("leader".into(), json!(self.leader.map(name)));
        object.insert("token".into(), json!(self.token));
        for (fact, value) in &self.facts {
            object.insert((*fact).into(), value.clone());
        }
        Value::Object(object)
    }
}
