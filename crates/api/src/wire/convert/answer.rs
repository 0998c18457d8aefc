//! What operations on keys answer.

use std::sync::Arc;

use bytes::Bytes;

use crate::KeyValue;
use crate::op::{DeleteRangeResult, OpResult, PutResult, RangeResult, TxnResult};
use crate::wire::etcdserverpb as pb;
use crate::wire::etcdserverpb::response_op::Response;
use crate::wire::mvccpb;

impl From<RangeResult> for pb::RangeResponse {
    fn from(found: RangeResult) -> Self {
        let write = |kv: Arc<KeyValue>| {
            let mut kv = mvccpb::KeyValue::from(&*kv);
            if found.keys_only {
                kv.value = Bytes::new();
            }
            kv
        };
        pb::RangeResponse {
            header: None,
            kvs: found.kvs.into_iter().map(write).collect(),
            more: found.more,
            count: found.count,
        }
    }
}

impl From<pb::RangeResponse> for RangeResult {
    fn from(response: pb::RangeResponse) -> Self {
        RangeResult {
            kvs: read_all(response.kvs),
            more: response.more,
            count: response.count,
            // The values, if they were not asked for, are already missing.
            keys_only: false,
        }
    }
}

impl From<PutResult> for pb::PutResponse {
    fn from(done: PutResult) -> Self {
        pb::PutResponse { header: None, prev_kv: done.prev.as_deref().map(Into::into) }
    }
}

impl From<pb::PutResponse> for PutResult {
    fn from(response: pb::PutResponse) -> Self {
        PutResult { prev: response.prev_kv.map(|kv| Arc::new(kv.into())) }
    }
}

impl From<DeleteRangeResult> for pb::DeleteRangeResponse {
    fn from(done: DeleteRangeResult) -> Self {
        pb::DeleteRangeResponse {
            header: None,
            deleted: done.deleted,
            prev_kvs: done.prev.iter().map(|kv| (&**kv).into()).collect(),
        }
    }
}

impl From<pb::DeleteRangeResponse> for DeleteRangeResult {
    fn from(response: pb::DeleteRangeResponse) -> Self {
        DeleteRangeResult { deleted: response.deleted, prev: read_all(response.prev_kvs) }
    }
}

impl From<TxnResult> for pb::TxnResponse {
    fn from(done: TxnResult) -> Self {
        pb::TxnResponse {
            header: None,
            succeeded: done.succeeded,
            responses: done.responses.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<pb::TxnResponse> for TxnResult {
    fn from(response: pb::TxnResponse) -> Self {
        TxnResult {
            succeeded: response.succeeded,
            responses: response.responses.into_iter().filter_map(read_step).collect(),
        }
    }
}

impl From<OpResult> for pb::ResponseOp {
    fn from(done: OpResult) -> Self {
        let response = match done {
            OpResult::Range(found) => Response::ResponseRange(found.into()),
            OpResult::Put(done) => Response::ResponsePut(done.into()),
            OpResult::DeleteRange(done) => Response::ResponseDeleteRange(done.into()),
            OpResult::Txn(done) => Response::ResponseTxn(done.into()),
        };
        pb::ResponseOp { response: Some(response) }
    }
}

/// Nothing for an answer of a kind that we never ask for.
fn read_step(op: pb::ResponseOp) -> Option<OpResult> {
    Some(match op.response? {
        Response::ResponseRange(response) => OpResult::Range(response.into()),
        Response::ResponsePut(response) => OpResult::Put(response.into()),
        Response::ResponseDeleteRange(response) => OpResult::DeleteRange(response.into()),
        Response::ResponseTxn(response) => OpResult::Txn(response.into()),
    })
}

fn read_all(kvs: Vec<mvccpb::KeyValue>) -> Vec<Arc<KeyValue>> {
    kvs.into_iter().map(|kv| Arc::new(kv.into())).collect()
}
