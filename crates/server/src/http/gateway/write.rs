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
