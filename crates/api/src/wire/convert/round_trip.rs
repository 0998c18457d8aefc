//! What is said in our words comes back the same from the wire, bytes included.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;

use super::{delete_range, put, range, range_request, txn};
use crate::op::*;
use crate::wire::{etcdserverpb as pb, mvccpb, tenure::v1};
use crate::*;

fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..6).prop_map(Bytes::from)
}

fn key() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 1..4).prop_map(Bytes::from)
}

fn span() -> impl Strategy<Value = Span> {
    (key(), prop_oneof![Just(Bytes::new()), Just(Bytes::from_static(b"\0")), key()])
        .prop_map(|(key, end)| Span::from_wire(key, end))
}

fn revision() -> impl Strategy<Value = Revision> {
    (1..i64::MAX).prop_map(Revision)
}

fn lease() -> impl Strategy<Value = Option<LeaseId>> {
    any::<i64>().prop_map(LeaseId::from_wire)
}

fn window() -> impl Strategy<Value = Window> {
    (prop::option::of(revision()), prop::option::of(revision()))
        .prop_map(|(min, max)| Window { min, max })
}

fn sort() -> impl Strategy<Value = (SortOrder, SortTarget)> {
    (
        prop::sample::select(vec![SortOrder::None, SortOrder::Ascend, SortOrder::Descend]),
        prop::sample::select(vec![
            SortTarget::Key,
            SortTarget::Version,
            SortTarget::Create,
            SortTarget::Mod,
            SortTarget::Value,
        ]),
    )
}

fn a_range() -> impl Strategy<Value = Range> {
    let limit = prop::option::of(1..usize::MAX / 2);
    let at = prop::option::of(revision());
    (span(), limit, at, sort(), any::<[bool; 2]>(), window(), window()).prop_map(
        |(span, limit, revision, (sort_order, sort_target), only, modified, created)| Range {
            span,
            limit,
            revision,
            sort_order,
            sort_target,
            keys_only: only[0],
            count_only: only[1],
            mod_revision: modified,
            create_revision: created,
        },
    )
}

fn a_put() -> impl Strategy<Value = Put> {
    let lease = prop_oneof![lease().prop_map(PutLease::Set), Just(PutLease::Keep)];
    (key(), prop::option::of(bytes()), lease, any::<bool>())
        .prop_map(|(key, value, lease, prev_kv)| Put { key, value, lease, prev_kv })
}

/// Everything but the names.
type JoinRest = (Bytes, Mode, u32, [bool; 4], Vec<(String, String)>);

fn join_rest() -> impl Strategy<Value = JoinRest> {
    let mode = prop_oneof![
        Just(Mode::Exclusive),
        Just(Mode::Shared),
        any::<u32>().prop_map(Mode::Permit),
    ];
    let metadata = prop::collection::btree_map(".{0,3}", ".{0,3}", 0..3);
    let metadata = metadata.prop_map(|pairs| pairs.into_iter().collect());
    (bytes(), mode, any::<u32>(), any::<[bool; 4]>(), metadata)
}

fn join_spec<Name>(names: Vec<Name>, rest: JoinRest) -> JoinSpec<Name> {
    let (value, mode, priority, [preempts, no_overlap, try_only, unhealthy], metadata) = rest;
    JoinSpec { names, value, mode, priority, preempts, no_overlap, try_only, unhealthy, metadata }
}

fn a_delete() -> impl Strategy<Value = DeleteRange> {
    (span(), any::<bool>()).prop_map(|(span, prev_kv)| DeleteRange { span, prev_kv })
}

fn a_compare() -> impl Strategy<Value = Compare> {
    let result = prop::sample::select(vec![
        CompareResult::Equal,
        CompareResult::Greater,
        CompareResult::Less,
        CompareResult::NotEqual,
    ]);
    let target = prop_oneof![
        any::<i64>().prop_map(CompareTarget::Version),
        any::<i64>().prop_map(|it| CompareTarget::Create(Revision(it))),
        any::<i64>().prop_map(|it| CompareTarget::Mod(Revision(it))),
        bytes().prop_map(CompareTarget::Value),
        lease().prop_map(CompareTarget::Lease),
    ];
    (span(), result, target).prop_map(|(span, result, target)| Compare { span, result, target })
}

pub(super) fn a_txn() -> impl Strategy<Value = Txn> {
    let step = prop_oneof![
        a_range().prop_map(Op::Range),
        a_put().prop_map(Op::Put),
        a_delete().prop_map(Op::DeleteRange),
    ];
    let step = step.prop_recursive(3, 16, 3, |inner| {
        let branch = || prop::collection::vec(inner.clone(), 0..3);
        (prop::collection::vec(a_compare(), 0..3), branch(), branch())
            .prop_map(|(compare, success, failure)| Op::Txn(Txn { compare, success, failure }))
    });
    let branch = || prop::collection::vec(step.clone(), 0..4);
    (prop::collection::vec(a_compare(), 0..4), branch(), branch())
        .prop_map(|(compare, success, failure)| Txn { compare, success, failure })
}

fn a_kv() -> impl Strategy<Value = Arc<KeyValue>> {
    (bytes(), bytes(), any::<[i64; 3]>(), lease()).prop_map(|(key, value, numbers, lease)| {
        Arc::new(KeyValue {
            key,
            value,
            create_revision: Revision(numbers[0]),
            mod_revision: Revision(numbers[1]),
            version: numbers[2],
            lease,
        })
    })
}

fn a_result() -> impl Strategy<Value = OpResult> {
    let kvs = || prop::collection::vec(a_kv(), 0..3);
    let leaf = prop_oneof![
        (kvs(), any::<bool>(), any::<i64>()).prop_map(|(kvs, more, count)| {
            OpResult::Range(RangeResult { kvs, more, count, keys_only: false })
        }),
        prop::option::of(a_kv()).prop_map(|prev| OpResult::Put(PutResult { prev })),
        (any::<i64>(), kvs()).prop_map(|(deleted, prev)| {
            OpResult::DeleteRange(DeleteRangeResult { deleted, prev })
        }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        (any::<bool>(), prop::collection::vec(inner, 0..3))
            .prop_map(|(succeeded, responses)| OpResult::Txn(TxnResult { succeeded, responses }))
    })
}

/// Through the bytes, as a peer would read them.
fn over_the_wire<M: Message + Default>(message: M) -> M {
    M::decode(message.encode_to_vec().as_slice()).expect("what we write can be read")
}

proptest! {
    #[test]
    fn joins(names in prop::collection::vec(".{0,4}", 0..3), rest in join_rest()) {
        let said = join_spec(names.clone(), rest.clone());
        let heard = JoinSpec::from(over_the_wire(v1::Join::from(&said)));
        prop_assert_eq!(heard, join_spec(names.into_iter().map(Bytes::from).collect(), rest));
    }

    #[test]
    fn ranges(said in a_range(), serializable: bool) {
        let heard = range(over_the_wire(range_request(said.clone(), serializable)));
        prop_assert_eq!(heard, Ok((said, serializable)));
    }

    #[test]
    fn puts(said in a_put()) {
        prop_assert_eq!(put(over_the_wire(said.clone().into())), Ok(said));
    }

    #[test]
    fn deletions(said in a_delete()) {
        prop_assert_eq!(delete_range(over_the_wire(said.clone().into())), Ok(said));
    }

    #[test]
    fn transactions(said in a_txn()) {
        prop_assert_eq!(txn(over_the_wire(said.clone().into())), Ok(said));
    }

    #[test]
    fn answers(said in prop::collection::vec(a_result(), 0..4), succeeded: bool) {
        let said = TxnResult { succeeded, responses: said };
        let heard: TxnResult = over_the_wire(pb::TxnResponse::from(said.clone())).into();
        prop_assert_eq!(heard, said);
    }

    #[test]
    fn events(kv in a_kv(), prev in prop::option::of(a_kv()), deleted: bool) {
        let kind = if deleted { EventKind::Delete } else { EventKind::Put };
        let said = Event { kind, kv, prev };
        prop_assert_eq!(Event::from(over_the_wire(mvccpb::Event::from(&said))), said);
    }

    #[test]
    fn members(id: u64, name: String, urls: [Vec<String>; 2], is_learner: bool) {
        let [peer_urls, client_urls] = urls;
        let said = Member { id: MemberId(id), name, peer_urls, client_urls, is_learner };
        prop_assert_eq!(Member::from(over_the_wire(pb::Member::from(said.clone()))), said);
    }

    #[test]
    fn leases(id: i64, secs: [i64; 2], keys in prop::collection::vec(bytes(), 0..3)) {
        let said =
            LeaseStatus { id: LeaseId(id), remaining_secs: secs[0], granted_secs: secs[1], keys };
        let heard = over_the_wire(pb::LeaseTimeToLiveResponse::from(said.clone())).into();
        prop_assert_eq!(said, heard);
    }

    /// A keys-only answer leaves the values out and shares the keys instead of copying them.
    #[test]
    fn keys_only(kv in a_kv()) {
        let found = RangeResult { kvs: vec![kv.clone()], keys_only: true, ..Default::default() };
        let response = pb::RangeResponse::from(found);
        prop_assert!(response.kvs[0].value.is_empty());
        prop_assert_eq!(response.kvs[0].key.as_ptr(), kv.key.as_ptr());
    }
}
