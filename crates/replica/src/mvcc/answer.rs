//! How much a transaction may answer.
//!
//! A request of a few kilobytes can ask for the same keys a thousand times, in nested transactions too. What one range may
//! answer is the client's own affair; how often it is multiplied is ours.

use tenure_api::{DeleteRange, Failure, KeyValue, Op, Put, Range, Txn};

use super::{Store, range::whole_is_seen, txn::Way};

/// What all operations of a transaction, on all levels, may answer together.
pub const TXN_ANSWER_BYTES_MAX: usize = 64 << 20;
/// What a key of an answer costs beside its bytes: its numbers, and its place in the list.
const KEY_OVERHEAD: usize = 64;

impl Store {
    /// Refuses a transaction whose answer could be too large, before anything is done: the keys that are there, and
    /// all that it puts itself. One operation alone may answer what it could outside.
    pub(super) fn check_answer(
        &self,
        txn: &Txn,
        way: &Way,
        bytes_max: usize,
    ) -> Result<(), Failure> {
        let mut puts = Vec::new();
        let mut answering = 0;
        way.walk(txn, &mut |op| {
            puts.extend(if let Op::Put(put) = op { Some(put) } else { None });
            answering += usize::from(answers_keys(op));
            Ok(())
        })?;
        if answering < 2 {
            return Ok(());
        }
        let mut left = bytes_max;
        way.walk(txn, &mut |op| {
            let bytes = match op {
                Op::Range(range) => self.range_bytes(range, &puts, left)?,
                Op::DeleteRange(delete) => self.deleted_bytes(delete, &puts, left),
                Op::Put(put) if put.prev_kv => self.get(&put.key).map_or(0, |kv| bytes(kv)),
                Op::Put(_) | Op::Txn(_) => 0,
            };
            left = left.checked_sub(bytes).ok_or(Failure::RequestTooLarge)?;
            Ok(())
        })
    }

    fn range_bytes(&self, range: &Range, puts: &[&Put], left: usize) -> Result<usize, Failure> {
        if range.count_only {
            return Ok(0);
        }
        let own = if range.revision.is_some() { 0 } else { put_bytes(puts, &range.span) };
        let sized = |kv: &KeyValue| match range.keys_only {
            true => kv.key.len() + KEY_OVERHEAD,
            false => bytes(kv),
        };
        // Which ones an order or a filter leaves is known only when all were seen.
        if whole_is_seen(range) {
            let found = self.range(range)?;
            return Ok(own + found.kvs.iter().map(|kv| sized(kv)).sum::<usize>());
        }
        let most = range.limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let kvs = self.versions(&range.span, range.revision).take(most);
        Ok(own.saturating_add(sum_up_to(left, kvs.map(|kv| sized(kv)))))
    }

    fn deleted_bytes(&self, delete: &DeleteRange, puts: &[&Put], left: usize) -> usize {
        if !delete.prev_kv {
            return 0;
        }
        let there = sum_up_to(left, self.live_in(&delete.span).map(|kv| bytes(kv)));
        put_bytes(puts, &delete.span).saturating_add(there)
    }
}

/// Whether keys come back.
fn answers_keys(op: &Op) -> bool {
    match op {
        Op::Range(range) => !range.count_only,
        Op::DeleteRange(delete) => delete.prev_kv,
        Op::Put(put) => put.prev_kv,
        Op::Txn(_) => false,
    }
}

fn bytes(kv: &KeyValue) -> usize {
    kv.key.len() + kv.value.len() + KEY_OVERHEAD
}

fn put_bytes(puts: &[&Put], span: &tenure_api::Span) -> usize {
    let there = puts.iter().filter(|put| span.contains(&put.key));
    let value = |put: &Put| put.value.as_ref().map_or(0, |value| value.len());
    there.map(|put| put.key.len() + value(put) + KEY_OVERHEAD).sum()
}

/// The sum, or the first that is more than so much: what comes after it is not looked at.
fn sum_up_to(most: usize, sizes: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0usize;
    for size in sizes {
        sum += size;
        if sum > most {
            break;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tenure_api::{Span, op::PutLease};

    use super::*;

    const VALUE_BYTES: usize = 1 << 20;
    const KEYS: usize = 8;
    /// So many of its operations may read all keys.
    const FIT: usize = TXN_ANSWER_BYTES_MAX / (KEYS * (VALUE_BYTES + KEY_OVERHEAD + 1));

    fn store() -> Store {
        let mut store = Store::new();
        for key in 0..KEYS as u8 {
            store.put(&put(&[key + 1]), &|_| true).unwrap();
        }
        store
    }

    fn put(key: &[u8]) -> Put {
        let value = Some(Bytes::from(vec![7; VALUE_BYTES]));
        let key = Bytes::copy_from_slice(key);
        Put { key, value, lease: PutLease::Set(None), prev_kv: false }
    }

    fn all() -> Op {
        Op::Range(Range::all(Span::From(Bytes::from_static(b"\0"))))
    }

    fn txn(success: Vec<Op>) -> Txn {
        Txn { compare: vec![], success, failure: vec![] }
    }

    /// Pairs of pairs of pairs: etcd's own limit of 128 operations lets such a request through.
    fn nested(ops: usize) -> Txn {
        let mut level = vec![all(); ops];
        while level.len() > 1 {
            let pairs = level.chunks(2).map(|pair| Op::Txn(txn(pair.to_vec())));
            level = pairs.collect();
        }
        txn(level)
    }

    #[test]
    fn txn_answer_is_limited_over_all_levels() {
        let mut store = store();
        for make in [nested as fn(usize) -> Txn, |ops| txn(vec![all(); ops])] {
            assert!(store.read_txn(&make(FIT)).is_ok());
            assert_eq!(store.read_txn(&make(FIT + 1)), Err(Failure::RequestTooLarge));
            let apply = store.txn(&make(FIT + 1), &|_| true, TXN_ANSWER_BYTES_MAX);
            assert_eq!(apply.err(), Some(Failure::RequestTooLarge));
        }
    }

    /// What it puts itself is multiplied as well, and nothing is left of what was refused.
    #[test]
    fn txn_answer_counts_what_the_transaction_puts() {
        let mut store = Store::new();
        let reads = |count: usize| {
            let mut ops = vec![Op::Put(put(b"a"))];
            ops.extend(vec![all(); count]);
            txn(ops)
        };
        let fit = TXN_ANSWER_BYTES_MAX / (VALUE_BYTES + KEY_OVERHEAD + 1);
        let too_much = store.txn(&reads(fit + 1), &|_| true, TXN_ANSWER_BYTES_MAX);
        assert_eq!(too_much.err(), Some(Failure::RequestTooLarge));
        assert_eq!(store.get(b"a"), None);
        store.txn(&reads(fit), &|_| true, TXN_ANSWER_BYTES_MAX).unwrap();
    }

    #[test]
    fn txn_answer_of_one_operation_is_what_a_range_answers() {
        let mut store = store();
        let one = txn(vec![all()]);
        assert!(store.txn(&one, &|_| true, VALUE_BYTES).is_ok());
        let keys_only = |op| match op {
            Op::Range(range) => Op::Range(Range { keys_only: true, ..range }),
            other => other,
        };
        let names = txn(vec![keys_only(all()), keys_only(all())]);
        assert!(store.txn(&names, &|_| true, VALUE_BYTES).is_ok());
        assert!(store.txn(&txn(vec![all(), all()]), &|_| true, VALUE_BYTES).is_err());
    }
}
