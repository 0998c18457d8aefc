//! What the caller's headers mean to gRPC: the principal, what else the services should know, how long
//! the caller will wait. As in etcd, which has it from grpc-gateway.

use std::{future::Future, time::Duration};

use axum::http::{HeaderMap, HeaderName, header::AUTHORIZATION, request::Parts};
use tonic::{Request, Status, metadata::MetadataMap};

use crate::{admission::Connection, auth::FromGateway};

const METADATA_PREFIX: &str = "grpc-metadata-";
const TIMEOUT: &str = "grpc-timeout";
/// gRPC allows eight digits.
const TIMEOUT_DIGITS_MAX: usize = 8;

/// A request with the metadata that its headers stand for: the token of `Authorization`, and
/// whatever follows `Grpc-Metadata-`. It counts among those of the caller's connection.
pub(super) fn annotated<T>(head: &Parts, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(FromGateway);
    if let Some(connection) = head.extensions.get::<Connection>() {
        request.extensions_mut().insert(connection.clone());
    }
    let mut metadata = HeaderMap::new();
    for (name, value) in &head.headers {
        let meant = match name.as_str().strip_prefix(METADATA_PREFIX) {
            Some(rest) => HeaderName::from_bytes(rest.as_bytes()).ok(),
            None => (name == AUTHORIZATION).then(|| name.clone()),
        };
        if let Some(name) = meant {
            metadata.append(name, value.clone());
        }
    }
    if !metadata.is_empty() {
        *request.metadata_mut() = MetadataMap::from_headers(metadata);
    }
    request
}

/// How long the caller waits, by `Grpc-Timeout`: digits and a unit, such as `500m` for half a second.
pub(super) fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let parsed = parse(text);
    parsed
        .map(Some)
        .ok_or_else(|| Status::invalid_argument(format!("invalid grpc-timeout: {text}")))
}

pub(super) fn parse(text: &str) -> Option<Duration> {
    let (at, unit) = text.char_indices().next_back()?;
    let digits = &text[..at];
    if digits.len() > TIMEOUT_DIGITS_MAX || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(number * 3600),
        'M' => Duration::from_secs(number * 60),
        'S' => Duration::from_secs(number),
        'm' => Duration::from_millis(number),
        'u' => Duration::from_micros(number),
        'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Waits no longer than the caller does.
pub(super) async fn within<T>(
    patience: Option<Duration>,
    work: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    match patience {
        None => work.await,
        Some(patience) => match tokio::time::timeout(patience, work).await {
            Ok(done) => done,
            Err(_) => Err(too_late()),
        },
    }
}

/// What the caller of a request that took too long is told.
pub(super) fn too_late() -> Status {
    Status::deadline_exceeded("context deadline exceeded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_digits_and_a_unit() {
        assert_eq!(parse("500m"), Some(Duration::from_millis(500)));
        assert_eq!(parse("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(parse("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for wrong in ["", "m", "5", "5x", "-5S", "+5S", "123456789S", "5é"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_tokens_and_marked_headers_become_metadata() {
        let (mut head, ()) = axum::http::Request::new(()).into_parts();
        head.headers = HeaderMap::from_iter([
            (AUTHORIZATION, "token".parse().unwrap()),
            (HeaderName::from_static("grpc-metadata-hasleader"), "true".parse().unwrap()),
            (HeaderName::from_static("cookie"), "private".parse().unwrap()),
        ]);
        let request = annotated(&head, ());
        assert_eq!(request.metadata().get("authorization").unwrap(), "token");
        assert_eq!(request.metadata().get("hasleader").unwrap(), "true");
        assert_eq!(request.metadata().len(), 2);
    }
}
