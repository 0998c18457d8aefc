//! Who leads the log, asked again and again.

use std::time::Duration;

use tenure::grpc::{Client, Endpoint, Options};
use tokio::task::JoinSet;

/// A paused member answers nobody; the others must not wait for it.
const PATIENCE: Duration = Duration::from_millis(300);

/// A client of each member.
#[derive(Clone, Debug)]
pub(super) struct Raft {
    clients: Vec<Client>,
}

/// What the members that answer say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    /// Who leads in its own eyes, in the newest term.
    pub(super) leader: Option<usize>,
    /// Who answers.
    pub(super) answers: Vec<usize>,
    /// How many of them follow that leader, itself included.
    pub(super) followers: usize,
}

impl Raft {
    /// Must be called inside a runtime.
    pub(super) fn new(endpoints: &str) -> anyhow::Result<Raft> {
        let options =
            Options { dial_timeout: PATIENCE, request_timeout: PATIENCE, credentials: None };
        let client = |at: Endpoint| Client::new(vec![at], options.clone());
        Ok(Raft { clients: Endpoint::list(endpoints)?.into_iter().map(client).collect() })
    }

    /// Asks all of them at once.
    pub(super) async fn look(&self) -> View {
        let mut asked = JoinSet::new();
        for (at, client) in self.clients.iter().cloned().enumerate() {
            asked.spawn(async move { (at, client.maintenance().status().await) });
        }
        let mut said = Vec::new();
        while let Some(answer) = asked.join_next().await {
            if let Ok((at, Ok(status))) = answer {
                let id = status.header.map_or(0, |header| header.member_id);
                said.push((at, id, status.leader, status.raft_term));
            }
        }
        said.sort_unstable();
        let leads = said.iter().filter(|(_, id, leader, _)| id == leader).max_by_key(|one| one.3);
        let followed = leads.map(|leads| leads.1);
        View {
            leader: leads.map(|leads| leads.0),
            answers: said.iter().map(|one| one.0).collect(),
            followers: said.iter().filter(|one| Some(one.2) == followed).count(),
        }
    }
}
