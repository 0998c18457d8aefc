//! HTTP questions: a sidecar's belief, a member's wall clock and release.

use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tenure::grpc::{Dialer, Endpoint};

/// No sidecar has more to say.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// The server's wall clock, in whole seconds.
    pub(super) date: Option<SystemTime>,
    pub(super) body: Bytes,
}

/// Asks once, for so long at the most.
pub(super) async fn get(
    dialer: &Dialer,
    at: &Endpoint,
    path: &str,
    patience: Duration,
) -> anyhow::Result<Answer> {
    let asked = tokio::time::timeout(patience, ask(dialer, at, path)).await;
    asked.unwrap_or_else(|_| bail!("no answer within {patience:?}"))
}

async fn ask(dialer: &Dialer, at: &Endpoint, path: &str) -> anyhow::Result<Answer> {
    let stream = dialer.dial(at, &["http/1.1"]).await?;
    let authority = at.uri().authority().context("no host")?;
    let (mut send, connection) = handshake(TokioIo::new(stream)).await?;
    let talking = tokio::spawn(connection);
    let request = Request::get(path)
        .header(header::HOST, authority.as_str())
        .header(header::ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())?;
    let answer = send.send_request(request).await?;
    let date = answer.headers().get(header::DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|cause| anyhow::anyhow!("{cause}"))?.to_bytes();
    talking.abort();
    Ok(Answer { status, date, body })
}
