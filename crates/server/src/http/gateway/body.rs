//! Reading a whole body within its limits.

use std::time::Duration;

use axum::{
    body::{Body, BodyDataStream, Bytes},
    http::request::Parts,
};
use futures_util::StreamExt;
use tenure_api::Failure;
use tonic::Status;

use crate::{
    admission::{ARRIVAL_MAX, Connection, Held, too_late},
    grpc::{REQUEST_OVERHEAD_BYTES, refuse},
};

/// How much of a refused body is still read, and for how long.
const DRAIN_BYTES_MAX: usize = 32 << 20;
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// The most that the JSON of one request may weigh: the largest message that gRPC reads, every byte
/// of it in base64. So the size of a request is judged by the service, and only what is hopeless is
/// turned away before.
pub(super) fn bytes_max(request_bytes_max: usize) -> usize {
    (request_bytes_max + REQUEST_OVERHEAD_BYTES).div_ceil(3) * 4
}

/// What a request holds while it arrives, counted for its connection.
pub(super) fn held(head: &Parts) -> Held {
    let connection = head.extensions.get::<Connection>();
    connection.map(|known| known.calls.unfinished.clone()).unwrap_or_default().begin()
}

/// Reads all of a body, unless it is too large or takes too long.
pub(super) async fn read_all(body: Body, bytes_max: usize, held: Held) -> Result<Bytes, Status> {
    match tokio::time::timeout(ARRIVAL_MAX, collect(body, bytes_max, held)).await {
        Ok(read) => read,
        Err(_) => Err(too_late()),
    }
}

/// Reads on, within limits, what is of no use any more. A connection that is closed while its client
/// still writes is reset, and the client never sees why it was refused.
pub(super) async fn drain(pieces: &mut BodyDataStream) {
    let drained = async {
        let mut left = DRAIN_BYTES_MAX;
        while let Some(Ok(piece)) = pieces.next().await {
            left = left.saturating_sub(piece.len());
            if left == 0 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN_PATIENCE, drained).await;
}

/// A body that comes in one piece, as nearly all do, is not copied.
async fn collect(body: Body, bytes_max: usize, mut held: Held) -> Result<Bytes, Status> {
    let mut pieces = body.into_data_stream();
    let mut whole = Bytes::new();
    let mut joined = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Status::cancelled("the request broke off"))?;
        if whole.len().max(joined.len()) + piece.len() > bytes_max {
            drain(&mut pieces).await;
            return Err(refuse(Failure::RequestTooLarge));
        }
        if let Err(failure) = held.set(whole.len().max(joined.len()) + piece.len()) {
            drop((whole, joined, held));
            drain(&mut pieces).await;
            return Err(refuse(failure));
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
