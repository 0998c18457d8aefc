//! Plain HTTP on the client port: health, version, metrics, the JSON gateway, and the dashboard.

pub(crate) mod gateway;
mod ui;

use axum::{
    Json, Router,
    extract::{RawQuery, Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use serde_json::json;
use tenure_api::{AlarmKind, Principal};
use tenure_replica::{Consistency, Operation, Read, Reply};

pub(crate) use self::ui::keep_pages_reading;
pub use self::ui::{UiFacts, ui_file, ui_routes};
use crate::{
    admission::Admitted, grpc::ETCD_VERSION, metrics::ELECTIONS_NAMED_MAX, node::NodeHandle,
};

/// Everything that is not gRPC.
pub fn routes(node: NodeHandle) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/version", get(version))
        .route("/tenure/version", get(own_version))
        .route("/metrics", get(metrics))
        .with_state(node)
}

/// The answer for unknown paths: gRPC clients are told in their own language, others in theirs.
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
async fn health(State(node): State<NodeHandle>, RawQuery(query): RawQuery) -> impl IntoResponse {
    let query = query.unwrap_or_default();
    let has = |wanted: &str| query.split('&').any(|part| part.eq_ignore_ascii_case(wanted));
    let counts = |kind: &AlarmKind| !has(&format!("exclude={}", alarm_name(*kind)));
    let alarm = node.status().alarms.iter().map(|alarm| alarm.kind).find(counts);
    let sick = match alarm {
        Some(kind) => Some(format!("ALARM {}", alarm_name(kind))),
        None => sickness(&node, has("serializable=true")).await,
    };
    node.metrics.health.answered(sick.is_none());
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

async fn sickness(node: &NodeHandle, serializable: bool) -> Option<String> {
    let consistency =
        if serializable { Consistency::Serializable } else { Consistency::Linearizable };
    let status = node.status();
    if !serializable && status.leader.is_none() {
        return Some("RAFT NO LEADER".to_owned());
    }
    if !serializable && status.is_learner {
        let lags = || "this learner has not caught up with the raft leader yet".to_owned();
        return (!status.has_caught_up).then(lags);
    }
    let answer = node.ask(&itself(), Operation::Read(Read::Freshness, consistency)).await;
    if let Err(failure) = answer.and_then(|answer| answer.result) {
        return Some(failure.text().to_owned());
    }
    // Right after the first start of a cluster: changes of the members, elections and locks would be refused.
    let not_yet = || "the members have not agreed yet on what all of them can do".to_owned();
    (!serializable && !status.is_capable).then(not_yet)
}

/// Health and metrics are asked for by the member itself.
fn itself() -> Admitted {
    Admitted::in_process(Principal::System)
}

/// The process runs and its core loop answers.
async fn livez(State(node): State<NodeHandle>) -> impl IntoResponse {
    verdict(sickness(&node, true).await)
}

/// The member can serve what clients ask, and is in the list of members by its name.
async fn readyz(State(node): State<NodeHandle>) -> impl IntoResponse {
    verdict(sickness(&node, false).await)
}

fn verdict(sick: Option<String>) -> impl IntoResponse {
    match sick {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ok: {reason}\n")),
    }
}

async fn metrics(State(node): State<NodeHandle>) -> impl IntoResponse {
    const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
    read_elections(&node).await;
    ([(header::CONTENT_TYPE, TEXT)], node.metrics.text(&node.status()))
}

/// Leaders are not counted anywhere: they are looked up on each scrape.
async fn read_elections(node: &NodeHandle) {
    let read = Read::Elections(Bytes::new(), ELECTIONS_NAMED_MAX);
    let read = Operation::Read(read, Consistency::Serializable);
    let answer = node.ask(&itself(), read).await.and_then(|answer| answer.result);
    if let Ok(Reply::Elections(elections, sessions)) = answer {
        node.metrics.election.read(&elections, sessions);
    }
}

/// Etcd's two fields: some of its clients fail on a third.
async fn version() -> impl IntoResponse {
    Json(json!({ "etcdserver": ETCD_VERSION, "etcdcluster": ETCD_VERSION }))
}

async fn own_version() -> impl IntoResponse {
    Json(json!({ "tenure": env!("CARGO_PKG_VERSION") }))
}
