//! The transactions of the recipe.

use bytes::Bytes;
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::range_request::{SortOrder, SortTarget};
use pb::request_op::Request;
use tenure_api::LeaseId;
use tenure_api::wire::{etcdserverpb as pb, mvccpb};

use super::keys;
use crate::LineName;

/// One place's key in one line.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) name: LineName,
    pub(super) key: Bytes,
}

/// Creates all keys if none is there, and reads the first of each line; otherwise reads the keys.
pub(super) fn enter(spots: &[Spot], lease: LeaseId, value: &Bytes) -> pb::TxnRequest {
    let absent = spots.iter().map(|spot| create(EQUAL, spot.key.clone(), Bytes::new(), 0));
    pb::TxnRequest { compare: absent.collect(), ..enter_if(spots, lease, value) }
}

/// The same, if the lines are empty altogether.
pub(super) fn enter_empty(spots: &[Spot], lease: LeaseId, value: &Bytes) -> pb::TxnRequest {
    let empty = spots.iter().map(|spot| {
        let (key, range_end) = keys::span(&spot.name);
        create(EQUAL, key, range_end, 0)
    });
    pb::TxnRequest { compare: empty.collect(), ..enter_if(spots, lease, value) }
}

fn enter_if(spots: &[Spot], lease: LeaseId, value: &Bytes) -> pb::TxnRequest {
    let put = |spot: &Spot| {
        Request::RequestPut(pb::PutRequest {
            key: spot.key.clone(),
            value: value.clone(),
            lease: lease.0,
            ..Default::default()
        })
    };
    let first =
        |spot: &Spot| Request::RequestRange(pb::RangeRequest { limit: 1, ..line(&spot.name) });
    let read = |spot: &Spot| Request::RequestRange(one(spot.key.clone()));
    pb::TxnRequest {
        compare: vec![],
        success: ops(spots.iter().map(put).chain(spots.iter().map(first))),
        failure: ops(spots.iter().map(read)),
    }
}

/// If all keys are those that were created at these revisions, reads what is older in their lines.
pub(super) fn look(places: &[(Spot, i64)], newest_only: bool) -> pb::TxnRequest {
    let older = |(spot, token): &(Spot, i64)| {
        Request::RequestRange(pb::RangeRequest {
            max_create_revision: token - 1,
            sort_order: SortOrder::Descend as i32,
            keys_only: true,
            limit: newest_only.into(),
            ..line(&spot.name)
        })
    };
    pb::TxnRequest {
        compare: places.iter().map(|(spot, token)| is(&spot.key, *token)).collect(),
        success: ops(places.iter().map(older)),
        failure: vec![],
    }
}

/// Deletes a key if it was created at that revision.
pub(super) fn leave(key: &Bytes, token: i64) -> pb::TxnRequest {
    delete_if(is(key, token), key)
}

/// Deletes a key if it hangs on that lease.
pub(super) fn leave_by_lease(key: &Bytes, lease: LeaseId) -> pb::TxnRequest {
    let ours = pb::Compare {
        result: EQUAL,
        target: CompareTarget::Lease as i32,
        key: key.clone(),
        range_end: Bytes::new(),
        target_union: Some(TargetUnion::Lease(lease.0)),
    };
    delete_if(ours, key)
}

/// Changes the value of a key that was created at `token` and last changed at `modified`; otherwise
/// reads it.
pub(super) fn proclaim(key: &Bytes, token: i64, modified: i64, value: &Bytes) -> pb::TxnRequest {
    let unchanged = pb::Compare {
        result: EQUAL,
        target: CompareTarget::Mod as i32,
        key: key.clone(),
        range_end: Bytes::new(),
        target_union: Some(TargetUnion::ModRevision(modified)),
    };
    let put = pb::PutRequest {
        key: key.clone(),
        value: value.clone(),
        ignore_lease: true,
        ..Default::default()
    };
    pb::TxnRequest {
        compare: vec![is(key, token), unchanged],
        success: ops([Request::RequestPut(put)]),
        failure: ops([Request::RequestRange(one(key.clone()))]),
    }
}

/// All keys of a line, oldest first.
pub(super) fn line(name: &LineName) -> pb::RangeRequest {
    let (key, range_end) = keys::span(name);
    pb::RangeRequest {
        key,
        range_end,
        sort_order: SortOrder::Ascend as i32,
        sort_target: SortTarget::Create as i32,
        ..Default::default()
    }
}

/// One key.
pub(super) fn one(key: Bytes) -> pb::RangeRequest {
    pb::RangeRequest { key, ..Default::default() }
}

/// The keys that the n-th operation found.
pub(super) fn found(answer: &pb::TxnResponse, n: usize) -> &[mvccpb::KeyValue] {
    match answer.responses.get(n).and_then(|op| op.response.as_ref()) {
        Some(pb::response_op::Response::ResponseRange(range)) => &range.kvs,
        _ => &[],
    }
}

/// The revision that an answer was true at.
pub(super) fn revision(header: Option<&pb::ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

const EQUAL: i32 = CompareResult::Equal as i32;

fn is(key: &Bytes, token: i64) -> pb::Compare {
    create(EQUAL, key.clone(), Bytes::new(), token)
}

fn create(result: i32, key: Bytes, range_end: Bytes, revision: i64) -> pb::Compare {
    let target_union = Some(TargetUnion::CreateRevision(revision));
    pb::Compare { result, target: CompareTarget::Create as i32, key, range_end, target_union }
}

fn delete_if(condition: pb::Compare, key: &Bytes) -> pb::TxnRequest {
    let delete = pb::DeleteRangeRequest { key: key.clone(), ..Default::default() };
    pb::TxnRequest {
        compare: vec![condition],
        success: ops([Request::RequestDeleteRange(delete)]),
        failure: vec![],
    }
}

fn ops(requests: impl IntoIterator<Item = Request>) -> Vec<pb::RequestOp> {
    requests.into_iter().map(|request| pb::RequestOp { request: Some(request) }).collect()
}
