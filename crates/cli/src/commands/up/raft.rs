//! The raft leader, asked for again and again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::grpc::{Client, Endpoint, Options};
use tokio::task::JoinSet;

use crate::args::TlsFiles;

/// A paused member does not answer; the others must not wait for it.
const PATIENCE: Duration = Duration::from_millis(300);
const CHANGE_PATIENCE: Duration = Duration::from_secs(5);

/// A client of each member, and what is known of them.
#[derive(Clone, Debug)]
pub(super) struct Raft {
    clients: Vec<Client>,
    all: Client,
    /// Which member has which id, as far as each has said it once.
    ids: Arc<Mutex<BTreeMap<u64, usize>>>,
}

/// What the members that answer say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    /// The raft leader of the members in the newest term.
    pub(super) leader: Option<usize>,
    /// Otherwise nothing is known.
    pub(super) someone_answers: bool,
    /// How many of them follow that leader, itself included.
    pub(super) followers: usize,
}

impl Raft {
    /// Must be called inside a runtime.
    pub(super) fn new(endpoints: &str, tls: Option<&TlsFiles>) -> anyhow::Result<Raft> {
        let options =
            Options { dial_timeout: PATIENCE, request_timeout: PATIENCE, ..Options::default() };
        let options = match tls {
            Some(tls) => tls.on(options)?,
            None => options,
        };
        let client = |at: Endpoint| Client::new(vec![at], options.clone());
        let endpoints = Endpoint::list(endpoints)?;
        let patient = Options { request_timeout: CHANGE_PATIENCE, ..options.clone() };
        let all = Client::new(endpoints.clone(), patient);
        let clients = endpoints.into_iter().map(client).collect();
        Ok(Raft { clients, all, ids: Arc::default() })
    }

    /// Of any of them, with time enough for changes.
    pub(super) fn client(&self) -> &Client {
        &self.all
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
        let mut ids = self.ids.lock().expect("nobody panics while holding it");
        ids.extend(said.iter().map(|(at, id, ..)| (*id, *at)));
        // A raft leader on a busy machine may answer late; its followers know it all the same.
        let followed = said.iter().filter(|one| one.2 != 0).max_by_key(|one| one.3);
        let followed = followed.map(|one| one.2);
        View {
            leader: followed.and_then(|id| ids.get(&id).copied()),
            someone_answers: !said.is_empty(),
            followers: said.iter().filter(|one| Some(one.2) == followed).count(),
        }
    }
}
