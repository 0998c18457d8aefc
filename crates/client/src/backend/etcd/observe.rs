//! Observing an election on etcd: all its keys once, then their events.
//!
//! The watch begins right after the revision that was read, so nothing is missed in between. Events
//! of one revision are taken in together, because only a revision's end is a state that existed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tenure_api::Revision;
use tenure_api::wire::etcdserverpb as pb;

use super::candidates::Candidates;
use super::{keys, txn};
use crate::backend::{Boxed, Observation, Sight};
use crate::grpc::{Client, Resumed};
use crate::host::Host;
use crate::{ElectionName, EngineError};

/// Pause before everything is read anew.
const PAUSE: Duration = Duration::from_millis(100);

/// An observed election.
#[derive(Debug)]
pub(super) struct Seen {
    client: Client,
    host: Arc<dyn Host>,
    name: ElectionName,
    candidates: Candidates,
    watch: Resumed,
    /// Not told yet.
    news: VecDeque<(Revision, Sight)>,
}

impl Seen {
    pub(super) async fn open(
        client: Client,
        host: Arc<dyn Host>,
        name: ElectionName,
    ) -> Result<Seen, EngineError> {
        let mut candidates = Candidates::default();
        let (at, watch) = read(&client, &name, &mut candidates).await?;
        let news = candidates.sight().map(|sight| (at, sight)).into_iter().collect();
        Ok(Seen { client, host, name, candidates, watch, news })
    }

    /// History was compacted away under us, or no member went on: begin anew, and say so.
    async fn begin_anew(&mut self) -> Result<(), EngineError> {
        self.host.pause(PAUSE).await;
        let (at, watch) = read(&self.client, &self.name, &mut self.candidates).await?;
        self.watch = watch;
        self.news.push_back((at, Sight::Gap));
        self.news.extend(self.candidates.sight().map(|sight| (at, sight)));
        Ok(())
    }

    fn take_in(&mut self, answer: pb::WatchResponse) {
        let mut events = answer.events;
        let changed = |event: &tenure_api::wire::mvccpb::Event| {
            event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
        };
        while let Some(first) = events.first() {
            let at = changed(first);
            let rest = events.partition_point(|event| changed(event) <= at);
            let later = events.split_off(rest);
            self.candidates.apply(std::mem::replace(&mut events, later));
            self.news.extend(self.candidates.sight().map(|sight| (Revision(at), sight)));
        }
    }
}

impl Observation for Seen {
    fn next(&mut self) -> Boxed<'_, Result<(Revision, Sight), EngineError>> {
        Box::pin(async move {
            loop {
                if let Some(news) = self.news.pop_front() {
                    return Ok(news);
                }
                match self.watch.next().await {
                    Ok(answer) if answer.canceled => self.begin_anew().await?,
                    Ok(answer) => self.take_in(answer),
                    Err(error) if error.is_refused() => return Err(error.into()),
                    Err(_) => self.begin_anew().await?,
                }
            }
        })
    }
}

async fn read(
    client: &Client,
    name: &ElectionName,
    candidates: &mut Candidates,
) -> Result<(Revision, Resumed), EngineError> {
    let found = client.kv().range(txn::all_of(name)).await?;
    let at = txn::revision(found.header.as_ref());
    candidates.reset(found.kvs);
    let (key, range_end) = keys::span(name);
    let start_revision = at + 1;
    let create = pb::WatchCreateRequest { key, range_end, start_revision, ..Default::default() };
    let watch = client.watch().resumed(create).await?;
    Ok((Revision(at), watch))
}
