//! A store from the chunks of another.

use std::{collections::BTreeMap, sync::Arc};

use imbl::{OrdMap, Vector};
use tenure_api::{Event, EventKind, KeyValue, Revision};

use super::{
    Change, Store,
    history::History,
    key::Key,
    snapshot::{BOUNDARY, END, FORMAT, HEADER, ORDER, VERSIONS},
    store::cost,
    version,
};
use crate::codec::{DecodeError, Reader};

/// Takes the chunks of [`Store::chunks`] in order. Bytes that cannot have come from there are an
/// error, never a panic; bytes that were changed into other valid ones are for the checksums of
/// the file or stream that carries them.
#[derive(Debug, Default)]
pub struct Restore {
    header: Option<(Revision, Revision)>,
    chunks: u64,
    ended: bool,
    boundary: Vec<Event>,
    /// The key whose versions are being read.
    open: Option<History>,
    keys: OrdMap<Key, History>,
    /// Everything after the compacted revision, in key order.
    events: Vec<(Revision, Event)>,
    order: BTreeMap<Revision, Vec<usize>>,
    live: usize,
    bytes: u64,
}

impl Restore {
    /// Before the first chunk.
    pub fn new() -> Restore {
        Restore::default()
    }

    /// Takes the next chunk.
    pub fn chunk(&mut self, chunk: &[u8]) -> Result<(), DecodeError> {
        let mut input = Reader::new(chunk);
        let tag = input.u8()?;
        let unexpected = DecodeError::UnknownTag { what: "snapshot chunk", tag };
        if self.ended || self.header.is_none() != (tag == HEADER) {
            return Err(unexpected);
        }
        match tag {
            HEADER => self.header(&mut input)?,
            BOUNDARY => each(&mut input, |input| self.boundary(input))?,
            VERSIONS => each(&mut input, |input| self.version(input))?,
            ORDER => each(&mut input, |input| self.order(input))?,
            END => {
                // The keys of a chunk that got lost on the way would otherwise go missing unnoticed.
                if input.u64()? != self.chunks {
                    return Err(DecodeError::Truncated);
                }
                self.ended = true;
            }
            _ => return Err(unexpected),
        }
        self.chunks += 1;
        input.finish()
    }

    /// The store, if all chunks were there.
    pub fn finish(mut self) -> Result<Store, DecodeError> {
        let (revision, compacted) = self.header.ok_or(DecodeError::Truncated)?;
        if !self.ended {
            return Err(DecodeError::Truncated);
        }
        self.close_key();
        let swept_events = self.boundary.len();
        let changes = changes(compacted, self.boundary, self.events, self.order)?;
        let (keys, live, bytes) = (self.keys, self.live, self.bytes);
        Ok(Store { revision, compacted, keys, changes, swept_events, live, bytes })
    }

    fn header(&mut self, input: &mut Reader<'_>) -> Result<(), DecodeError> {
        let format = input.u64()?;
        if format != FORMAT {
            let tag = u8::try_from(format).unwrap_or(u8::MAX);
            return Err(DecodeError::UnknownTag { what: "snapshot format", tag });
        }
        let (revision, compacted) = (Revision(input.i64()?), Revision(input.i64()?));
        if revision < Revision::FIRST || compacted < Revision(0) || compacted > revision {
            return Err(DecodeError::Overflow);
        }
        self.header = Some((revision, compacted));
        Ok(())
    }

    fn boundary(&mut self, input: &mut Reader<'_>) -> Result<(), DecodeError> {
        let kv = version::decode(input)?;
        if self.header.is_none_or(|(_, compacted)| kv.mod_revision != compacted) {
            return Err(DecodeError::Overflow);
        }
        self.boundary.push(event(Arc::new(kv), None));
        Ok(())
    }

    fn version(&mut self, input: &mut Reader<'_>) -> Result<(), DecodeError> {
        let (revision, compacted) = self.header.ok_or(DecodeError::Truncated)?;
        let kv = Arc::new(version::decode(input)?);
        if kv.mod_revision > revision || kv.mod_revision < Revision::FIRST {
            return Err(DecodeError::Overflow);
        }
        self.bytes += cost(&kv);
        let prev = match &mut self.open {
            Some(history) if history.newest().key == kv.key => {
                if history.newest().mod_revision > kv.mod_revision {
                    return Err(DecodeError::Overflow);
                }
                let prev = history.live().cloned();
                history.push(kv.clone());
                prev
            }
            Some(history) if history.newest().key > kv.key => return Err(DecodeError::Overflow),
            _ => {
                self.close_key();
                self.open = Some(History::new(kv.clone()));
                None
            }
        };
        if kv.mod_revision > compacted {
            self.events.push((kv.mod_revision, event(kv, prev)));
        }
        Ok(())
    }

    fn order(&mut self, input: &mut Reader<'_>) -> Result<(), DecodeError> {
        let revision = Revision(input.i64()?);
        let count = input.count()?;
        let order = self.order.entry(revision).or_default();
        for _ in 0..count {
            order.push(usize::try_from(input.u64()?).map_err(|_| DecodeError::Overflow)?);
        }
        Ok(())
    }

    fn close_key(&mut self) {
        let Some(history) = self.open.take() else { return };
        self.live += usize::from(history.live().is_some());
        self.keys.insert(Key::new(&history.newest().key), history);
    }
}

/// Reads records to the end of the chunk.
fn each(
    input: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    while input.remaining() > 0 {
        read(input)?;
    }
    Ok(())
}

fn event(kv: Arc<KeyValue>, prev: Option<Arc<KeyValue>>) -> Event {
    let kind = if kv.is_tombstone() { EventKind::Delete } else { EventKind::Put };
    Event { kind, kv, prev }
}

/// The list of changes: events by revision, and inside a revision as they happened.
fn changes(
    compacted: Revision,
    boundary: Vec<Event>,
    mut events: Vec<(Revision, Event)>,
    mut order: BTreeMap<Revision, Vec<usize>>,
) -> Result<Vector<Change>, DecodeError> {
    let mut changes = Vector::new();
    if !boundary.is_empty() {
        changes.push_back(Change { revision: compacted, events: boundary.into() });
    }
    // Stable, so that the events of a revision stay in key order.
    events.sort_by_key(|(revision, _)| *revision);
    let mut events = events.into_iter().peekable();
    while let Some((revision, first)) = events.next() {
        if events.peek().is_none_or(|(next, _)| *next != revision) {
            changes.push_back(Change { revision, events: Arc::new([first]) });
            continue;
        }
        let mut group = vec![first];
        while let Some((_, event)) = events.next_if(|(next, _)| *next == revision) {
            group.push(event);
        }
        let group = match order.remove(&revision) {
            Some(order) => reorder(group, &order)?,
            None => group,
        };
        changes.push_back(Change { revision, events: group.into() });
    }
    if order.is_empty() { Ok(changes) } else { Err(DecodeError::Overflow) }
}

fn reorder(group: Vec<Event>, order: &[usize]) -> Result<Vec<Event>, DecodeError> {
    if order.len() != group.len() {
        return Err(DecodeError::Overflow);
    }
    let mut left: Vec<Option<Event>> = group.into_iter().map(Some).collect();
    order
        .iter()
        .map(|at| left.get_mut(*at).and_then(Option::take).ok_or(DecodeError::Overflow))
        .collect()
}
