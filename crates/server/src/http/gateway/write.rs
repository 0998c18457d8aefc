//! From a message to JSON, as etcd writes it: names as in `proto/`, what is zero left out, numbers of
//! 64 bits as strings, bytes in base64, choices by name.

use prost_reflect::{DynamicMessage, SerializeOptions};
use tonic::Status;

const STYLE: SerializeOptions = SerializeOptions::new().use_proto_field_name(true);

/// One answer.
pub(super) fn object(message: &DynamicMessage) -> Result<Vec<u8>, Status> {
    let mut json = Vec::with_capacity(256);
    append(message, &mut json)?;
    Ok(json)
}

/// One answer of a stream.
pub(super) fn line(message: &DynamicMessage) -> Result<Vec<u8>, Status> {
    let mut json = Vec::with_capacity(256);
    json.extend_from_slice(b"{\"result\":");
    append(message, &mut json)?;
    json.extend_from_slice(b"}\n");
    Ok(json)
}

fn append(message: &DynamicMessage, json: &mut Vec<u8>) -> Result<(), Status> {
    let mut serializer = serde_json::Serializer::new(json);
    let written = message.serialize_with_options(&mut serializer, &STYLE);
    written.map_err(|cause| Status::internal(cause.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;
    use prost_reflect::DescriptorPool;
    use tenure_api::wire::{DESCRIPTORS, etcdserverpb as pb, mvccpb};

    use super::*;
    use crate::http::gateway::read;

    fn described(name: &str, message: &impl Message) -> DynamicMessage {
        let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
        let kind = pool.get_message_by_name(name).unwrap();
        DynamicMessage::decode(kind, &message.encode_to_vec()[..]).unwrap()
    }

    #[test]
    fn it_is_written_as_etcd_writes_it() {
        let kv = mvccpb::KeyValue { key: "foo".into(), version: 1, ..Default::default() };
        let answer = pb::WatchResponse {
            header: Some(pb::ResponseHeader { member_id: u64::MAX, ..Default::default() }),
            watch_id: -1,
            created: true,
            events: vec![mvccpb::Event { r#type: 1, kv: Some(kv), prev_kv: None }],
            ..Default::default()
        };
        assert_eq!(
            String::from_utf8(line(&described("etcdserverpb.WatchResponse", &answer)).unwrap())
                .unwrap(),
            concat!(
                r#"{"result":{"header":{"member_id":"18446744073709551615"},"watch_id":"-1","created":true,"#,
                r#""events":[{"type":"DELETE","kv":{"key":"Zm9v","version":"1"}}]}}"#,
                "\n"
            )
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            key: Vec<u8>, value: Vec<u8>, limit: i64, order in 0..3i32, serializable: bool, lease: i64,
        ) {
            let range = pb::RangeRequest {
                key: key.clone().into(), limit, sort_order: order, serializable, ..Default::default()
            };
            let put = pb::PutRequest { key: key.into(), value: value.into(), lease, ..Default::default() };
            let steps = [
                pb::request_op::Request::RequestRange(range),
                pb::request_op::Request::RequestPut(put),
            ];
            let steps = steps.map(|step| pb::RequestOp { request: Some(step) });
            let txn = pb::TxnRequest { success: steps.into(), ..Default::default() };
            let written = described("etcdserverpb.TxnRequest", &txn);
            let read = read::message(&prost_reflect::ReflectMessage::descriptor(&written), &object(&written).unwrap());
            prop_assert_eq!(read.unwrap(), written);
        }

        #[test]
        fn garbage_is_refused_and_nothing_worse(noise: Vec<u8>, text in r#"[{}\[\]":,a-z0-9 ]{0,60}"#) {
            let kind = DescriptorPool::decode(DESCRIPTORS).unwrap();
            let kind = kind.get_message_by_name("etcdserverpb.TxnRequest").unwrap();
            let _ = read::message(&kind, &noise);
            let _ = read::message(&kind, text.as_bytes());
        }
    }
}
