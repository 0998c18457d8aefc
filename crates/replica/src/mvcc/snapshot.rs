//! The store as a stream of chunks, for the disk and for members that lag behind.
//!
//! A chunk is a tag and records up to its end; no record spans two chunks. In this order:
//!
//! | tag | records |
//! |---|---|
//! | 1 header | format, revision, compacted revision (one record, one chunk) |
//! | 2 boundary | the events at the compacted revision, in order, each as its version |
//! | 3 versions | every version readable since compaction, by key, then oldest first |
//! | 4 order | revision, n, n numbers: see below |
//! | 5 end | how many chunks came before it |
//!
//! The list of changes is not written: it is the same versions sorted by revision. What that would
//! lose is the order of events inside a transaction. A revision whose events did not happen in
//! key order has order records: the k-th number says which, in key order, of its events happened
//! as the k-th. Versions that compaction made unreachable are left out, swept or not.

use std::iter;

use tenure_api::{Event, KeyValue};

use super::{Change, Store, version};
use crate::codec::{put_i64, put_u64};

pub(super) const FORMAT: u64 = 1;
pub(super) const HEADER: u8 = 1;
pub(super) const BOUNDARY: u8 = 2;
pub(super) const VERSIONS: u8 = 3;
pub(super) const ORDER: u8 = 4;
pub(super) const END: u8 = 5;

/// A chunk is closed when it has reached this size; its last record may take it a little beyond.
const CHUNK_BYTES: usize = 256 * 1024;
/// Numbers in one order record; a longer order is several records.
const ORDER_MAX: usize = 16 * 1024;

impl Store {
    /// Everything that [`Restore`](super::Restore) needs to make the same store. It takes time in
    /// proportion to the store: call it on a frozen clone.
    pub fn chunks(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.chunks_after(&[])
    }

    /// The same, each chunk after these bytes.
    pub(crate) fn chunks_after(&self, before: &'static [u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
        let boundary = self.changes_since(self.compacted);
        let boundary = boundary.take_while(|change| change.revision == self.compacted);
        let boundary = boundary.flat_map(|change| change.events.iter()).map(|event| &*event.kv);
        let versions = self.keys.iter().flat_map(|(_, history)| history.since(self.compacted));
        let order = self.changes_since(self.compacted.next()).flat_map(order_records);

        let begun = move |tag: u8| {
            let mut out = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 64);
            out.extend_from_slice(before);
            out.push(tag);
            out
        };
        iter::once(self.header(begun(HEADER)))
            .chain(pack(move || begun(BOUNDARY), boundary, version::encode))
            .chain(pack(move || begun(VERSIONS), versions.map(|kv| &**kv), version::encode))
            .chain(pack(
                move || begun(ORDER),
                order,
                |record: Vec<u8>, out| {
                    out.extend_from_slice(&record);
                },
            ))
            .map(Some)
            .chain(iter::once(None))
            .scan(0, move |count, chunk| {
                let chunk = chunk.unwrap_or_else(|| end(begun(END), *count));
                *count += 1;
                Some(chunk)
            })
    }

    fn header(&self, mut out: Vec<u8>) -> Vec<u8> {
        put_u64(&mut out, FORMAT);
        put_i64(&mut out, self.revision.0);
        put_i64(&mut out, self.compacted.0);
        out
    }
}

/// Fills chunks with records; none at all make no chunk.
fn pack<T>(
    begun: impl Fn() -> Vec<u8>,
    records: impl Iterator<Item = T>,
    write: impl Fn(T, &mut Vec<u8>),
) -> impl Iterator<Item = Vec<u8>> {
    let mut records = records.peekable();
    iter::from_fn(move || {
        records.peek()?;
        let mut out = begun();
        while out.len() < CHUNK_BYTES
            && let Some(record) = records.next()
        {
            write(record, &mut out);
        }
        Some(out)
    })
}

/// Nothing for a change in key order, which is nearly every one.
fn order_records(change: &Change) -> impl Iterator<Item = Vec<u8>> + use<> {
    let order = if is_in_key_order(&change.events) { Vec::new() } else { order_of(change) };
    let revision = change.revision;
    let pieces: Vec<Vec<u8>> = order
        .chunks(ORDER_MAX)
        .map(|piece| {
            let mut out = Vec::new();
            put_i64(&mut out, revision.0);
            put_u64(&mut out, piece.len() as u64);
            piece.iter().for_each(|number| put_u64(&mut out, *number as u64));
            out
        })
        .collect();
    pieces.into_iter()
}

fn is_in_key_order(events: &[Event]) -> bool {
    events.is_sorted_by(|a, b| key_of(a) <= key_of(b))
}

fn order_of(change: &Change) -> Vec<usize> {
    let mut by_key: Vec<usize> = (0..change.events.len()).collect();
    // Stable: a key that was put and then deleted has its versions in that order too.
    by_key.sort_by_key(|at| key_of(&change.events[*at]));
    let mut order = vec![0; by_key.len()];
    for (rank, at) in by_key.into_iter().enumerate() {
        order[at] = rank;
    }
    order
}

fn key_of(event: &Event) -> &[u8] {
    let kv: &KeyValue = &event.kv;
    &kv.key
}

fn end(mut out: Vec<u8>, chunks_before: u64) -> Vec<u8> {
    put_u64(&mut out, chunks_before);
    out
}
