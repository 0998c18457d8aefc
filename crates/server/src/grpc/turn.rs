//! Waiting for one's turn in a line, and hearing whose turn it is.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{
    Failure, KeyValue, Range, Revision, Span,
    op::{SortOrder, SortTarget},
};
use tenure_replica::{
    Consistency, Read, Reply, Request,
    watch::{Interest, WatchCreate, WatchInput},
};

use tenure_api::wire::etcdserverpb::ResponseHeader;
use tonic::Status;

use super::reply::{refuse, unexpected};
use crate::node::{Door, Stamp, StreamNews, WatchOutlet};

/// What becomes of a place in a line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// It is the first.
    Held(Stamp),
    /// The key is gone, or is another's now.
    Gone,
}

/// All keys of a line.
fn span(name: &[u8]) -> Span {
    Span::prefix([name, b"/"].concat().into())
}

/// Waits until a place is the first of its line, or gone.
pub(super) async fn wait(
    door: &Door,
    name: &[u8],
    key: &Bytes,
    created: Revision,
) -> Result<Turn, Failure> {
    let mut line = Heard::open(door, name);
    loop {
        let (places, stamp) = line.read().await?;
        if !places.iter().any(|kv| kv.key == key && kv.create_revision == created) {
            return Ok(Turn::Gone);
        }
        if places.first().is_some_and(|first| first.key == key) {
            return Ok(Turn::Held(stamp));
        }
        line.change().await?;
    }
}

/// Somebody who hears who leads.
pub(super) struct Leaders {
    line: Heard,
    told: Option<Revision>,
}

impl Leaders {
    pub(super) fn of(door: &Door, name: &[u8]) -> Leaders {
        Leaders { line: Heard::open(door, name), told: None }
    }

    /// Whoever leads next, or what the leader shows next.
    pub(super) async fn next(&mut self) -> Result<(Arc<KeyValue>, Stamp), Failure> {
        loop {
            let (places, stamp) = self.line.read().await?;
            match places.into_iter().next() {
                Some(first) if self.told != Some(first.mod_revision) => {
                    self.told = Some(first.mod_revision);
                    return Ok((first, stamp));
                }
                _ => self.line.change().await?,
            }
        }
    }
}

/// A line that is listened to.
struct Heard {
    door: Door,
    outlet: WatchOutlet,
    span: Span,
}

impl Heard {
    fn open(door: &Door, name: &[u8]) -> Heard {
        let outlet = door.open_watch();
        let interest =
            Interest { no_put: false, no_delete: false, prev_kv: false, span: span(name) };
        let create = WatchCreate { id: None, interest, start: None, progress_notify: false };
        door.watch(WatchInput::Create(outlet.stream, create));
        Heard { door: door.clone(), outlet, span: span(name) }
    }

    async fn read(&self) -> Result<(Vec<Arc<KeyValue>>, Stamp), Failure> {
        let mut range = Range::all(self.span.clone());
        (range.sort_order, range.sort_target) = (SortOrder::Ascend, SortTarget::Create);
        let read = Request::Read(Read::Range(range), Consistency::Serializable);
        let answer = self.door.ask(read).await?;
        let stamp = Stamp { revision: answer.revision, term: answer.term };
        let found = match answer.result? {
            Reply::Range(found) => found,
            Reply::LargeRange(store, range) => store.range(&range)?,
            _ => return Err(Failure::Stopped),
        };
        Ok((found.kvs, stamp))
    }

    async fn change(&mut self) -> Result<(), Failure> {
        loop {
            match self.outlet.news.recv().await {
                Some(StreamNews::Events(_, events, _)) => {
                    self.door.metrics.mvcc.events_pending.sub(events.ends.len() as i64);
                    self.door.watch(WatchInput::Drained(self.outlet.stream, events.cost));
                    return Ok(());
                }
                Some(StreamNews::Ended(why)) => return Err(why),
                Some(_) => {}
                None => return Err(Failure::Stopped),
            }
        }
    }
}

/// Who leads.
pub(super) async fn leader(
    door: &Door,
    name: Bytes,
) -> Result<(Option<ResponseHeader>, Option<Arc<KeyValue>>), Status> {
    let mut range = Range::all(span(&name));
    (range.sort_order, range.sort_target) = (SortOrder::Ascend, SortTarget::Create);
    let read = Request::Read(Read::Range(range), Consistency::Linearizable);
    let (header, reply) = door.open(door.ask(read).await)?;
    let found = match reply {
        Reply::Range(found) => found,
        Reply::LargeRange(store, range) => store.range(&range).map_err(refuse)?,
        other => return Err(unexpected(&other)),
    };
    Ok((header, found.kvs.into_iter().next()))
}
