//! Watch events on their way to the streams, encoded once for all that get them.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use prost::Message;
use tenure_api::{Event, EventKind, Failure, Revision, Term, wire::mvccpb};
use tenure_replica::watch::{Told, WatchId, WatchInput, WatchNews, WatchRefusal, WatchStream};
use tokio::sync::mpsc;

use crate::metrics::Metrics;

/// What one stream is told.
#[derive(Clone, Debug)]
pub enum StreamNews {
    /// A watch stands.
    Created(WatchId, Stamp),
    /// A watch could not begin.
    Refused(WatchRefusal, Stamp),
    /// A watch has ended; with the compacted revision if that is why, or with the refusal.
    Cancelled(WatchId, Option<Revision>, Option<Failure>, Stamp),
    /// Something happened.
    Events(WatchId, Arc<EncodedEvents>, Stamp),
    /// Everything up to the stamp's revision was told, to one watch or to all.
    Progress(Option<WatchId>, Stamp),
    /// The stream ends, and why. Nothing follows.
    Ended(Failure),
}

/// What every answer's header says.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// The store's revision.
    pub revision: Revision,
    /// The raft term.
    pub term: Term,
}

/// Events as bytes of `WatchResponse.events`, ready to be written behind any header.
#[derive(Debug)]
pub struct EncodedEvents {
    /// All of them, each with its field tag and length.
    pub bytes: Bytes,
    /// Where each ends.
    pub ends: Vec<usize>,
    /// What they take of a stream's room.
    pub cost: usize,
}

/// The field number of `events` in `WatchResponse`.
const EVENTS_FIELD: u32 = 11;

impl EncodedEvents {
    fn new(events: &[Event], prev_kv: bool, cost: usize) -> EncodedEvents {
        let mut bytes = Vec::with_capacity(cost + 16 * events.len());
        let mut ends = Vec::with_capacity(events.len());
        for event in events {
            prost::encoding::message::encode(EVENTS_FIELD, &encode(event, prev_kv), &mut bytes);
            ends.push(bytes.len());
        }
        EncodedEvents { bytes: bytes.into(), ends, cost }
    }
}

fn encode(event: &Event, prev_kv: bool) -> impl Message {
    let kind = match event.kind {
        EventKind::Put => mvccpb::event::EventType::Put,
        EventKind::Delete => mvccpb::event::EventType::Delete,
    };
    let prev = event.prev.as_deref().filter(|_| prev_kv);
    mvccpb::Event {
        r#type: kind.into(),
        kv: Some((&*event.kv).into()),
        prev_kv: prev.map(Into::into),
    }
}

/// The streams that are open.
#[derive(Debug)]
pub(super) struct Streams {
    metrics: Arc<Metrics>,
    open: BTreeMap<WatchStream, mpsc::UnboundedSender<StreamNews>>,
}

impl Streams {
    pub(super) fn new(metrics: Arc<Metrics>) -> Streams {
        Streams { metrics, open: BTreeMap::new() }
    }

    pub(super) fn open(&mut self, id: WatchStream, sender: mpsc::UnboundedSender<StreamNews>) {
        self.open.insert(id, sender);
        self.metrics.mvcc.streams.set(self.open.len() as i64);
    }

    /// What the replica is to hear of. One task reads a stream's requests and another notices that its
    /// client is gone: what was read last may come after the end, and that watch would never be ended.
    pub(super) fn take(&mut self, input: WatchInput) -> Option<WatchInput> {
        if let WatchInput::Closed(stream) = input {
            self.close(stream);
            return Some(input);
        }
        self.open.contains_key(&input.stream()).then_some(input)
    }

    fn close(&mut self, id: WatchStream) {
        self.open.remove(&id);
        self.metrics.mvcc.streams.set(self.open.len() as i64);
    }

    /// Ends all of them.
    pub(super) fn end_all(&mut self, why: Failure) {
        for sender in std::mem::take(&mut self.open).into_values() {
            let _ = sender.send(StreamNews::Ended(why));
        }
        self.metrics.mvcc.streams.set(0);
    }

    pub(super) fn tell(&self, news: WatchNews, term: Term) {
        match news {
            WatchNews::Created { to, revision } => {
                self.send(to.stream, StreamNews::Created(to.id, Stamp { revision, term }));
            }
            WatchNews::Refused { stream, why, revision } => {
                self.send(stream, StreamNews::Refused(why, Stamp { revision, term }));
            }
            WatchNews::Cancelled { to, compacted, denied, revision } => {
                let stamp = Stamp { revision, term };
                self.send(to.stream, StreamNews::Cancelled(to.id, compacted, denied, stamp));
            }
            WatchNews::Progress { stream, id, revision } => {
                self.send(stream, StreamNews::Progress(id, Stamp { revision, term }));
            }
            WatchNews::Events { to, events, prev_kv, revision, cost } => {
                let encoded = Arc::new(EncodedEvents::new(&events, prev_kv, cost));
                let stamp = Stamp { revision, term };
                for Told { stream, id } in to {
                    let count = encoded.ends.len();
                    if self.send(stream, StreamNews::Events(id, encoded.clone(), stamp)) {
                        self.metrics.mvcc.events.inc_by(count as u64);
                        self.metrics.mvcc.events_pending.add(count as i64);
                    }
                }
            }
        }
    }

    /// A stream whose client went away is closed by its outlet; until then news for it are dropped.
    fn send(&self, stream: WatchStream, news: StreamNews) -> bool {
        self.open.get(&stream).is_some_and(|sender| sender.send(news).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn what_is_said_after_the_end_of_a_stream_is_not_heard() {
        let mut streams = Streams::new(Arc::new(Metrics::new(&Config::default())));
        let (sender, _news) = mpsc::unbounded_channel();
        streams.open(7, sender);
        assert!(streams.take(WatchInput::Progress(7)).is_some());
        assert!(streams.take(WatchInput::Closed(7)).is_some(), "its watches end");
        assert!(streams.take(WatchInput::Progress(7)).is_none());
        assert!(streams.take(WatchInput::Cancel(7, 0)).is_none());
    }
}
