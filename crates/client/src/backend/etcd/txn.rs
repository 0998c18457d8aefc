//! The transactions of the recipe.

use bytes::Bytes;
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::range_request::{SortOrder, SortTarget};
use pb::request_op::Request;
use tenure_api::LeaseId;
use tenure_api::wire::{etcdserverpb as pb, mvccpb};

use super::keys;
use crate::ElectionName;

/// One candidate's key in one election.
#[derive(Clone, Debug)]
pub(super) struct CandidateKey {
    pub(super) name: ElectionName,
    pub(super) key: Bytes,
}

/// Creates all keys if none is there, and reads the first of each election; otherwise reads the keys.
pub(super) fn enter(keys: &[CandidateKey], lease: LeaseId, value: &Bytes) -> pb::TxnRequest {
    let absent = keys.iter().map(|key| create(EQUAL, key.key.clone(), Bytes::new(), 0));
    pb::TxnRequest { compare: absent.collect(), ..enter_if(keys, lease, value) }
}

/// The same, if the elections have no candidates at all.
pub(super) fn enter_empty(keys: &[CandidateKey], lease: LeaseId, value: &Bytes) -> pb::TxnRequest {
    let empty = keys.iter().map(|key| {
        let (key, range_end) = keys::span(&key.name);
        create(EQUAL, key, range_end, 0)
    });
    pb::TxnRequest { compare: empty.collect(), ..enter_if(keys, lease, value) }
}

fn enter_if(keys: &[CandidateKey], lease: LeaseId, value: &Bytes) -> pb::TxnRequest {
    let put = |key: &CandidateKey| {
        Request::RequestPut(pb::PutRequest {
            key: key.key.clone(),
            value: value.clone(),
            lease: lease.0,
            ..Default::default()
        })
    };
    let first = |key: &CandidateKey| {
        Request::RequestRange(pb::RangeRequest { limit: 1, ..all_of(&key.name) })
    };
    let read = |key: &CandidateKey| Request::RequestRange(one(key.key.clone()));
    pb::TxnRequest {
        compare: vec![],
        success: ops(keys.iter().map(put).chain(keys.iter().map(first))),
        failure: ops(keys.iter().map(read)),
    }
}

/// If all keys are those that were created at these revisions, reads what is older in their elections.
pub(super) fn look(candidates: &[(CandidateKey, i64)], newest_only: bool) -> pb::TxnRequest {
    let older = |(key, token): &(CandidateKey, i64)| {
        Request::RequestRange(pb::RangeRequest {
            max_create_revision: token - 1,
            sort_order: SortOrder::Descend as i32,
            keys_only: true,
            limit: newest_only.into(),
            ..all_of(&key.name)
        })
    };
    pb::TxnRequest {
        compare: candidates.iter().map(|(key, token)| is(&key.key, *token)).collect(),
        success: ops(candidates.iter().map(older)),
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

/// All keys of an election, oldest first.
pub(super) fn all_of(name: &ElectionName) -> pb::RangeRequest {
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
