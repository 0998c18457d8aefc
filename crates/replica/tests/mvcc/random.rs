//! Random requests over few keys, so that they meet.

use bytes::Bytes;
use proptest::prelude::*;
use tenure_api::{
    Compare, CompareResult, CompareTarget, DeleteRange, LeaseId, Op, Put, Range, Revision,
    SortOrder, SortTarget, Span, Txn,
    op::{PutLease, Window},
};

#[derive(Clone, Debug)]
pub enum Step {
    Put(Put),
    Delete(DeleteRange),
    DeleteKeys(Vec<Bytes>),
    Txn(Txn),
    Read(Range),
    /// So many revisions before the newest.
    Compact(i64),
    Sweep(usize),
    /// Write a snapshot, go on with what it restores to, keep the old store to look at later.
    Snapshot,
}

pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => put().prop_map(Step::Put),
        2 => delete().prop_map(Step::Delete),
        1 => prop::collection::vec(key(), 0..4).prop_map(Step::DeleteKeys),
        6 => txn().prop_map(Step::Txn),
        3 => range().prop_map(Step::Read),
        2 => (-1..8i64).prop_map(Step::Compact),
        3 => (0..6usize).prop_map(Step::Sweep),
        1 => Just(Step::Snapshot),
    ]
}

/// One is too long to be stored inline.
pub fn key() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        Just("a".into()),
        Just("ab".into()),
        Just("b".into()),
        Just("c".into()),
        Just("c/0123456789/0123456789/0123456789/0123456789".into()),
        Just("d".into()),
    ]
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        3 => key().prop_map(Span::One),
        1 => key().prop_map(Span::From),
        1 => Just(Span::From("\0".into())),
        2 => (key(), key()).prop_map(|(start, end)| Span::Between(start, end)),
        1 => key().prop_map(Span::prefix),
    ]
}

fn value() -> impl Strategy<Value = Bytes> {
    (0..4u8).prop_map(|n| Bytes::from(vec![b'v'; usize::from(n)]))
}

fn lease() -> impl Strategy<Value = Option<LeaseId>> {
    // Even ones are dead (see `naive::lives`): rarely, or hardly any transaction would pass.
    prop_oneof![
        10 => Just(None),
        5 => Just(Some(LeaseId(7))),
        5 => Just(Some(LeaseId(9))),
        1 => Just(Some(LeaseId(8))),
    ]
}

fn put() -> impl Strategy<Value = Put> {
    let lease = prop_oneof![6 => lease().prop_map(PutLease::Set), 1 => Just(PutLease::Keep)];
    (key(), prop::option::weighted(0.9, value()), lease, any::<bool>())
        .prop_map(|(key, value, lease, prev_kv)| Put { key, value, lease, prev_kv })
}

fn delete() -> impl Strategy<Value = DeleteRange> {
    (span(), any::<bool>()).prop_map(|(span, prev_kv)| DeleteRange { span, prev_kv })
}

fn revision() -> impl Strategy<Value = Revision> {
    (0..30i64).prop_map(Revision)
}

fn window() -> impl Strategy<Value = Window> {
    let bound = || prop::option::weighted(0.15, revision());
    (bound(), bound()).prop_map(|(min, max)| Window { min, max })
}

pub fn range() -> impl Strategy<Value = Range> {
    let order = prop_oneof![
        2 => Just(SortOrder::None),
        1 => Just(SortOrder::Ascend),
        1 => Just(SortOrder::Descend),
    ];
    let target = prop_oneof![
        4 => Just(SortTarget::Key),
        1 => Just(SortTarget::Version),
        1 => Just(SortTarget::Create),
        1 => Just(SortTarget::Mod),
        1 => Just(SortTarget::Value),
    ];
    let limit = prop::option::of(0..4usize);
    let revision = prop::option::weighted(0.3, revision());
    (span(), limit, revision, order, target, any::<[bool; 3]>(), window(), window()).prop_map(
        |(span, limit, revision, sort_order, sort_target, [keys_only, a, b], m, c)| Range {
            span,
            limit,
            revision,
            sort_order,
            sort_target,
            keys_only,
            count_only: a && b,
            mod_revision: m,
            create_revision: c,
        },
    )
}

fn compare() -> impl Strategy<Value = Compare> {
    let result = prop_oneof![
        Just(CompareResult::Equal),
        Just(CompareResult::Greater),
        Just(CompareResult::Less),
        Just(CompareResult::NotEqual),
    ];
    let target = prop_oneof![
        (0..3i64).prop_map(CompareTarget::Version),
        revision().prop_map(CompareTarget::Create),
        revision().prop_map(CompareTarget::Mod),
        value().prop_map(CompareTarget::Value),
        lease().prop_map(CompareTarget::Lease),
    ];
    (span(), result, target).prop_map(|(span, result, target)| Compare { span, result, target })
}

pub fn txn() -> impl Strategy<Value = Txn> {
    let plain = prop_oneof![
        3 => range().prop_map(Op::Range),
        4 => put().prop_map(Op::Put),
        2 => delete().prop_map(Op::DeleteRange),
    ];
    let op = plain.prop_recursive(2, 8, 3, |op| {
        let ops = || prop::collection::vec(op.clone(), 0..3);
        (prop::collection::vec(compare(), 0..2), ops(), ops())
            .prop_map(|(compare, success, failure)| Op::Txn(Txn { compare, success, failure }))
    });
    let ops = || prop::collection::vec(op.clone(), 0..4);
    (prop::collection::vec(compare(), 0..3), ops(), ops())
        .prop_map(|(compare, success, failure)| Txn { compare, success, failure })
}
