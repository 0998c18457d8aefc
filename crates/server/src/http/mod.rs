//! Plain HTTP on the client port: health, version, metrics, and the JSON gateway.

pub(crate) mod gateway;

use axum::{
    Json, Router,
    extract::{RawQuery, Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use serde_json::json;
use tenure_api::AlarmKind;
use tenure_replica::{Consistency, Read, Reply};

use crate::{grpc::ETCD_VERSION, metrics::LINES_NAMED_MAX, node::Door};

/// Everything that is not gRPC.
pub fn routes(door: Door) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .with_state(door)
}

/// Whatever nobody serves: gRPC clients are told in their own language, others in theirs.
pub(crate) async fn nothing_here(request: Request) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    if kind.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        let text = format!("no such method: {}", request.uri().path());
        return tonic::Status::unimplemented(text).into_http();
    }
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}

/// Healthy means: no alarm, and a linearizable read works (or, if asked for, a local one). etcd's
/// query: `?serializable=true`, and `?exclude=NOSPACE` for alarms that do not count.
async fn health(State(door): State<Door>, RawQuery(query): RawQuery) -> impl IntoResponse {
    let query = query.unwrap_or_default();
    let has = |wanted: &str| query.split('&').any(|part| part.eq_ignore_ascii_case(wanted));
    let counts = |kind: &AlarmKind| !has(&format!("exclude={}", alarm_name(*kind)));
    let alarm = door.status().alarms.iter().map(|alarm| alarm.kind).find(counts);
    let sick = match alarm {
        Some(kind) => Some(format!("ALARM {}", alarm_name(kind))),
        None => sickness(&door, has("serializable=true")).await,
    };
    door.metrics.health.answered(sick.is_none());
    let code = if sick.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "health": if sick.is_none() { "true" } else { "false" },
        "reason": sick.unwrap_or_default(),
    });
    (code, Json(body))
}

fn alarm_name(kind: AlarmKind) -> &'static str {
    match kind {
        AlarmKind::NoSpace => "NOSPACE",
        AlarmKind::Corrupt => "CORRUPT",
    }
}

async fn sickness(door: &Door, serializable: bool) -> Option<String> {
    let consistency =
        if serializable { Consistency::Serializable } else { Consistency::Linearizable };
    let status = door.status();
    if !serializable && status.leader.is_none() {
        return Some("RAFT NO LEADER".to_owned());
    }
    if !serializable && status.is_learner {
        let lags = || "this learner has not caught up with the raft leader yet".to_owned();
        return (!status.has_caught_up).then(lags);
    }
    match door.ask(tenure_replica::Request::Read(Read::Freshness, consistency)).await {
        Ok(answer) => answer.result.err().map(|failure| failure.text().to_owned()),
        Err(failure) => Some(failure.text().to_owned()),
    }
}

/// The process runs and its core loop answers.
async fn livez(State(door): State<Door>) -> impl IntoResponse {
    verdict(sickness(&door, true).await)
}

/// The member can serve what clients ask, and is in the list of members by its name.
async fn readyz(State(door): State<Door>) -> impl IntoResponse {
    let unknown = || {
        let known = door.status().is_published;
        (!known).then(|| "the others do not know this member's name and addresses yet".to_owned())
    };
    verdict(sickness(&door, false).await.or_else(unknown))
}

fn verdict(sick: Option<String>) -> impl IntoResponse {
    match sick {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ok: {reason}\n")),
    }
}

async fn metrics(State(door): State<Door>) -> impl IntoResponse {
    const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
    read_lines(&door).await;
    ([(header::CONTENT_TYPE, TEXT)], door.metrics.text(&door.status()))
}

/// Who leads is not counted anywhere: it is looked up when somebody asks.
async fn read_lines(door: &Door) {
    let read = Read::Lines(Bytes::new(), LINES_NAMED_MAX);
    let read = tenure_replica::Request::Read(read, Consistency::Serializable);
    let answer = door.ask(read).await.and_then(|answer| answer.result);
    if let Ok(Reply::Lines(lines, sessions)) = answer {
        door.metrics.line.read(&lines, sessions);
    }
}

async fn version() -> impl IntoResponse {
    Json(json!({
        "etcdserver": ETCD_VERSION,
        "etcdcluster": ETCD_VERSION,
        "tenure": env!("CARGO_PKG_VERSION"),
    }))
}
