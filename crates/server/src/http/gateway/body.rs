//! Reading a whole body within its limits.

use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::StreamExt;
use tenure_api::Failure;
use tonic::Status;

use crate::grpc::{REQUEST_OVERHEAD_BYTES, refuse};

/// How long a client may take to send the one object of a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most that the JSON of one request may weigh: the largest message that gRPC reads, every byte
/// of it in base64. So the size of a request is judged by the service, and only what is hopeless is
/// turned away before.
pub(super) fn bytes_max(request_bytes_max: usize) -> usize {
    (request_bytes_max + REQUEST_OVERHEAD_BYTES).div_ceil(3) * 4
}

/// Reads all of a body, unless it is too large or takes too long.
pub(super) async fn read_all(body: Body, bytes_max: usize) -> Result<Bytes, Status> {
    match tokio::time::timeout(PATIENCE, collect(body, bytes_max)).await {
        Ok(read) => read,
        Err(_) => Err(Status::cancelled("the request did not arrive in time")),
    }
}

/// A body that comes in one piece, as nearly all do, is not copied.
async fn collect(body: Body, bytes_max: usize) -> Result<Bytes, Status> {
    let mut pieces = body.into_data_stream();
    let mut whole = Bytes::new();
    let mut joined = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Status::cancelled("the request broke off"))?;
        if whole.len().max(joined.len()) + piece.len() > bytes_max {
            return Err(refuse(Failure::RequestTooLarge));
        }
        if joined.is_empty() && whole.is_empty() {
            whole = piece;
            continue;
        }
        joined.extend_from_slice(&std::mem::take(&mut whole));
        joined.extend_from_slice(&piece);
    }
    Ok(if joined.is_empty() { whole } else { joined.into() })
}
