//! The JSON form of answers: etcdctl's field names, order and omissions.
//!
//! Go leaves out what is zero or empty, and so do we, field by field. Some of etcdctl's names follow
//! the protocol and some its own structs (`"granted-ttl"`, `"CompactRevision"`); scripts know them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use tenure::api::wire::{etcdserverpb as pb, mvccpb};

#[derive(Serialize)]
pub(super) struct Header {
    #[serde(skip_serializing_if = "is_zero")]
    cluster_id: u64,
    #[serde(skip_serializing_if = "is_zero")]
    member_id: u64,
    #[serde(skip_serializing_if = "is_zero")]
    revision: i64,
    #[serde(skip_serializing_if = "is_zero")]
    raft_term: u64,
}

impl Header {
    pub(super) fn of(header: Option<&pb::ResponseHeader>) -> Header {
        let header = header.cloned().unwrap_or_default();
        Header {
            cluster_id: header.cluster_id,
            member_id: header.member_id,
            revision: header.revision,
            raft_term: header.raft_term,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Kv<'a> {
    #[serde(serialize_with = "base64", skip_serializing_if = "<[u8]>::is_empty")]
    key: &'a [u8],
    #[serde(skip_serializing_if = "is_zero")]
    create_revision: i64,
    #[serde(skip_serializing_if = "is_zero")]
    mod_revision: i64,
    #[serde(skip_serializing_if = "is_zero")]
    version: i64,
    #[serde(serialize_with = "base64", skip_serializing_if = "<[u8]>::is_empty")]
    value: &'a [u8],
    #[serde(skip_serializing_if = "is_zero")]
    lease: i64,
}

impl<'a> From<&'a mvccpb::KeyValue> for Kv<'a> {
    fn from(kv: &'a mvccpb::KeyValue) -> Self {
        Kv {
            key: &kv.key,
            create_revision: kv.create_revision,
            mod_revision: kv.mod_revision,
            version: kv.version,
            value: &kv.value,
            lease: kv.lease,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Range<'a> {
    header: Header,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kvs: Vec<Kv<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    more: bool,
    #[serde(skip_serializing_if = "is_zero")]
    count: i64,
}

impl<'a> From<&'a pb::RangeResponse> for Range<'a> {
    fn from(response: &'a pb::RangeResponse) -> Self {
        Range {
            header: Header::of(response.header.as_ref()),
            kvs: response.kvs.iter().map(Kv::from).collect(),
            more: response.more,
            count: response.count,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Put<'a> {
    header: Header,
    #[serde(skip_serializing_if = "Option::is_none")]
    prev_kv: Option<Kv<'a>>,
}

impl<'a> From<&'a pb::PutResponse> for Put<'a> {
    fn from(response: &'a pb::PutResponse) -> Self {
        Put {
            header: Header::of(response.header.as_ref()),
            prev_kv: response.prev_kv.as_ref().map(Kv::from),
        }
    }
}

#[derive(Serialize)]
pub(super) struct DeleteRange<'a> {
    header: Header,
    #[serde(skip_serializing_if = "is_zero")]
    deleted: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prev_kvs: Vec<Kv<'a>>,
}

impl<'a> From<&'a pb::DeleteRangeResponse> for DeleteRange<'a> {
    fn from(response: &'a pb::DeleteRangeResponse) -> Self {
        DeleteRange {
            header: Header::of(response.header.as_ref()),
            deleted: response.deleted,
            prev_kvs: response.prev_kvs.iter().map(Kv::from).collect(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Txn<'a> {
    header: Header,
    #[serde(skip_serializing_if = "is_zero")]
    succeeded: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    responses: Vec<Step<'a>>,
}

/// Go shows the name of the struct field that holds the union.
#[derive(Serialize)]
struct Step<'a> {
    #[serde(rename = "Response")]
    response: Option<Union<'a>>,
}

#[derive(Serialize)]
enum Union<'a> {
    #[serde(rename = "response_range")]
    Range(Range<'a>),
    #[serde(rename = "response_put")]
    Put(Put<'a>),
    #[serde(rename = "response_delete_range")]
    DeleteRange(DeleteRange<'a>),
    #[serde(rename = "response_txn")]
    Txn(Txn<'a>),
}

impl<'a> From<&'a pb::TxnResponse> for Txn<'a> {
    fn from(response: &'a pb::TxnResponse) -> Self {
        use pb::response_op::Response;
        let step = |op: &'a pb::ResponseOp| Step {
            response: op.response.as_ref().map(|response| match response {
                Response::ResponseRange(range) => Union::Range(range.into()),
                Response::ResponsePut(put) => Union::Put(put.into()),
                Response::ResponseDeleteRange(del) => Union::DeleteRange(del.into()),
                Response::ResponseTxn(txn) => Union::Txn(txn.into()),
            }),
        };
        Txn {
            header: Header::of(response.header.as_ref()),
            succeeded: response.succeeded,
            responses: response.responses.iter().map(step).collect(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Event<'a> {
    #[serde(skip_serializing_if = "is_zero")]
    r#type: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    kv: Option<Kv<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prev_kv: Option<Kv<'a>>,
}

impl<'a> From<&'a mvccpb::Event> for Event<'a> {
    fn from(event: &'a mvccpb::Event) -> Self {
        Event {
            r#type: event.r#type,
            kv: event.kv.as_ref().map(Kv::from),
            prev_kv: event.prev_kv.as_ref().map(Kv::from),
        }
    }
}

/// What Go calls empty.
pub(super) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&in_base64(bytes))
}

pub(super) fn in_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
