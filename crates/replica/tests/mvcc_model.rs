//! The store must answer as a naive list of versions would, whatever is asked of it in whatever
//! order, however far it has swept, and after any number of snapshots.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "mvcc/naive.rs"]
mod naive;
#[path = "mvcc/random.rs"]
mod random;

use bytes::Bytes;
use naive::{Naive, lives};
use proptest::prelude::*;
use random::Step;
use tenure_api::{Event, Put, Range, Revision, Span, op::PutLease};
use tenure_replica::mvcc::{Change, Restore, Store, check_txn};

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn store_answers_as_a_list_of_versions_would(
        steps in prop::collection::vec(random::step(), 1..50),
    ) {
        let (mut store, mut naive) = (Store::new(), Naive::new());
        let mut frozen: Vec<(Store, Naive)> = Vec::new();
        for step in &steps {
            if matches!(step, Step::Snapshot) {
                let copy = restored(&store);
                frozen.push((std::mem::replace(&mut store, copy), naive.clone()));
            }
            apply(step, &mut store, &mut naive)?;
            same_now(&store, &naive)?;
        }
        same_history(&store, &naive)?;
        for (store, naive) in &frozen {
            same_now(store, naive)?;
            same_history(store, naive)?;
        }
    }

    #[test]
    fn store_clone_never_changes(
        before in prop::collection::vec(random::step(), 1..30),
        after in prop::collection::vec(random::step(), 1..30),
    ) {
        let (mut store, mut naive) = (Store::new(), Naive::new());
        for step in &before {
            apply(step, &mut store, &mut naive)?;
        }
        let (frozen, frozen_naive) = (store.clone(), naive.clone());
        for step in &after {
            apply(step, &mut store, &mut naive)?;
        }
        same_now(&frozen, &frozen_naive)?;
        same_history(&frozen, &frozen_naive)?;
        same_history(&store, &naive)?;
    }

    #[test]
    fn store_restore_refuses_missing_chunks_and_survives_damaged_ones(
        steps in prop::collection::vec(random::step(), 1..30),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let (mut store, mut naive) = (Store::new(), Naive::new());
        for step in &steps {
            apply(step, &mut store, &mut naive)?;
        }
        let mut chunks: Vec<Vec<u8>> = store.chunks().collect();
        for missing in 0..chunks.len() {
            let mut restore = Restore::new();
            let mut rest = chunks.iter().enumerate().filter(|(at, _)| *at != missing);
            let taken = rest.try_for_each(|(_, chunk)| restore.chunk(chunk));
            prop_assert!(taken.is_err() || restore.finish().is_err());
        }
        let place = at.index(chunks.iter().map(Vec::len).sum());
        let mut left = place;
        let damaged = chunks.iter_mut().find_map(|chunk| {
            if left < chunk.len() {
                return Some(&mut chunk[left]);
            }
            left -= chunk.len();
            None
        });
        *damaged.unwrap() = byte;
        let mut restore = Restore::new();
        if chunks.iter().try_for_each(|chunk| restore.chunk(chunk)).is_ok() {
            let _ = restore.finish();
        }
    }
}

fn apply(step: &Step, store: &mut Store, naive: &mut Naive) -> Result<(), TestCaseError> {
    let before = naive.revision;
    let change = match step {
        Step::Put(put) => {
            let answer = store.put(put, &lives);
            prop_assert_eq!(answer.clone().map(|(result, _)| result), naive.put(put));
            answer.ok().map(|(_, change)| change)
        }
        Step::Delete(delete) => {
            let (result, change) = store.delete_range(delete);
            prop_assert_eq!(result, naive.delete_range(delete));
            change
        }
        Step::DeleteKeys(keys) => {
            naive.delete_keys(keys);
            store.delete_keys(keys)
        }
        Step::Txn(txn) if check_txn(txn, 128).is_err() => None,
        Step::Txn(txn) => {
            if txn.is_read_only() {
                prop_assert_eq!(store.read_txn(txn), naive.clone().txn(txn));
            }
            let answer = store.txn(txn, &lives, usize::MAX);
            prop_assert_eq!(answer.clone().map(|(result, _)| result), naive.txn(txn));
            answer.ok().and_then(|(_, change)| change)
        }
        Step::Read(range) => {
            prop_assert_eq!(store.range(range), naive.range(range));
            None
        }
        Step::Compact(back) => {
            let revision = Revision(naive.revision.0 - back);
            prop_assert_eq!(store.compact(revision), naive.compact(revision));
            None
        }
        Step::Sweep(budget) => {
            prop_assert_eq!(store.sweep(*budget), !store.is_swept());
            None
        }
        Step::Snapshot => None,
    };
    prop_assert_eq!(change.is_some(), naive.revision > before);
    prop_assert_eq!(change.as_ref(), store.changes_since(before.next()).last());
    Ok(())
}

fn same_now(store: &Store, naive: &Naive) -> Result<(), TestCaseError> {
    prop_assert_eq!(store.revision(), naive.revision);
    prop_assert_eq!(store.compacted(), naive.compacted);
    let now = naive.at(naive.revision);
    prop_assert_eq!(store.len(), now.len());
    for version in &naive.versions {
        let key = &version.key[..];
        prop_assert_eq!(store.get(key).map(|kv| &**kv), now.get(key));
    }
    Ok(())
}

/// Every readable revision, every change, and that a snapshot and a full sweep make no difference.
fn same_history(store: &Store, naive: &Naive) -> Result<(), TestCaseError> {
    let mut swept = store.clone();
    while swept.sweep(1) {}
    prop_assert!(swept.is_swept());
    let copy = restored(store);
    for revision in naive.compacted.0..=naive.revision.0 {
        let revision = Revision(revision);
        let range = Range { revision: Some(revision), ..Range::all(Span::From("\0".into())) };
        let expected = naive.range(&range);
        prop_assert_eq!(&store.range(&range), &expected);
        prop_assert_eq!(&swept.range(&range), &expected);
        prop_assert_eq!(&copy.range(&range), &expected);
        let hash = store.hash(Some(revision)).unwrap();
        prop_assert_eq!(swept.hash(Some(revision)).unwrap(), hash);
        prop_assert_eq!(copy.hash(Some(revision)).unwrap(), hash);
        let changes = naive.changes_since(revision);
        prop_assert_eq!(&listed(store.changes_since(revision)), &changes);
        prop_assert_eq!(&listed(swept.changes_since(revision)), &changes);
        prop_assert_eq!(&listed(copy.changes_since(revision)), &changes);
    }
    prop_assert!(copy.is_swept());
    prop_assert_eq!(copy.size_bytes(), swept.size_bytes());
    prop_assert!(store.size_bytes() >= swept.size_bytes());
    if naive.revision == naive.compacted && naive.at(naive.revision).is_empty() {
        prop_assert_eq!(swept.size_bytes(), 0);
    }
    Ok(())
}

fn listed<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<(Revision, Vec<Event>)> {
    changes.map(|change| (change.revision, change.events.to_vec())).collect()
}

fn restored(store: &Store) -> Store {
    let mut restore = Restore::new();
    for chunk in store.chunks() {
        restore.chunk(&chunk).unwrap();
    }
    restore.finish().unwrap()
}

/// Small random stores never outgrow one node of the map, one chunk or one order record.
#[test]
fn store_of_many_chunks_keeps_every_revision() {
    let mut store = Store::new();
    let put = |key: String, value: usize| Put {
        key: key.into(),
        value: Some(vec![b'v'; value].into()),
        lease: PutLease::Set(None),
        prev_kv: false,
    };
    for n in 0..1000 {
        store.put(&put("hot".into(), 4096 + n), &lives).unwrap();
    }
    let names: Vec<Bytes> = (0..40_000).rev().map(|n| format!("{n:05}").into()).collect();
    for name in &names {
        store.put(&put(String::from_utf8(name.to_vec()).unwrap(), 1), &lives).unwrap();
    }
    let change = store.delete_keys(&names).unwrap();
    assert!(change.events.iter().map(|event| &event.kv.key).eq(&names));
    store.compact(Revision(500)).unwrap();
    store.sweep(100);

    let largest = store.chunks().map(|chunk| chunk.len()).max().unwrap();
    assert!(store.chunks().count() > 10 && largest < 300 * 1024, "{largest}");
    let copy = restored(&store);
    while store.sweep(100) {}
    assert!(store.changes_since(Revision(500)).eq(copy.changes_since(Revision(500))));
    assert_eq!(store.hash(None), copy.hash(None));
    assert_eq!(store.size_bytes(), copy.size_bytes());
    for store in [&store, &copy] {
        for revision in 500..=1001 {
            let range =
                Range { revision: Some(Revision(revision)), ..Range::all(Span::One("hot".into())) };
            let found = store.range(&range).unwrap();
            assert_eq!(found.kvs[0].value.len() as i64, 4096 + revision - 2);
        }
    }
}
