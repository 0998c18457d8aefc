//! What is asked with GET, and its answers.
//!
//! Every handler reads the `StatusCache` last of all, so that nothing lies between the judgement and the answer but its
//! writing. A client that counts `expires_in_ms` from when it *sent* its question stops in time, even if this process
//! was paused on the way.

use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::{AnswerContext, Healthz, events, step_down};
use crate::commands::sidecar::belief::Belief;
use crate::commands::sidecar::words;

/// Everything that is served.
pub(super) fn routes(context: AnswerContext) -> Router {
    Router::new()
        .route("/", get(name))
        .route("/leader", get(leader))
        .route("/sse", get(events::stream))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/step-down", post(step_down::step_down))
        .layer(middleware::from_fn_with_state(context.clone(), around))
        .with_state(context)
}

/// Counts every answer, forbids caching it, and refuses what pages of others ask.
async fn around(State(context): State<AnswerContext>, request: Request, next: Next) -> Response {
    let path = known(request.uri().path());
    let (parts, body) = request.into_parts();
    let mut response = match context.browsers.judge(&parts) {
        Ok(_) => next.run(Request::from_parts(parts, body)).await,
        Err(refused) => {
            let error = json!({ "error": refused.to_string() });
            json_of(refused.status(), &error)
        }
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    context.counts.answered(path, response.status().as_u16());
    response
}

/// Unknown paths are counted as one: there is no end of them.
fn known(path: &str) -> &'static str {
    const ALL: [&str; 7] =
        ["/", "/leader", "/sse", "/healthz", "/readyz", "/metrics", "/step-down"];
    ALL.into_iter().find(|known| *known == path).unwrap_or("other")
}

/// JSON with a line end, for people with curl.
pub(super) fn json_of(status: StatusCode, body: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, format!("{body}\n")).into_response()
}

/// What the retired leader-elector image answered: the leader's name and nothing else.
async fn name(State(context): State<AnswerContext>) -> Response {
    match context.status.belief() {
        Belief::Sure(sure) => {
            let name = sure.leader.map_or(String::new(), |leader| leader.name);
            json_of(StatusCode::OK, &json!({ "name": name }))
        }
        Belief::Unsure(why) => {
            json_of(StatusCode::SERVICE_UNAVAILABLE, &words::unsure(&context.status, why))
        }
    }
}

async fn leader(State(context): State<AnswerContext>) -> Response {
    let (judged_unix_ms, belief) = context.status.dated_belief();
    let status = match belief {
        Belief::Sure(_) => StatusCode::OK,
        Belief::Unsure(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    json_of(status, &words::whole(&context.status, &belief, judged_unix_ms))
}

async fn healthz(State(context): State<AnswerContext>) -> Response {
    verdict(match context.healthz {
        Healthz::Lease if context.status.lease_ran_out() => {
            Err("led, and could not renew the lease before its end".into())
        }
        Healthz::Lease => Ok(()),
        Healthz::Leader => context.status.leads().map(drop).ok_or("not leading".into()),
    })
}

/// Ready means that there is an answer; with `?leader=1` or `--ready-when-leader`, that it is us.
async fn readyz(State(context): State<AnswerContext>, RawQuery(query): RawQuery) -> Response {
    let asked = query.is_some_and(|query| query.split('&').any(|part| part == "leader=1"));
    verdict(match () {
        () if *context.stop.borrow() => Err("stopping".into()),
        () if asked || context.ready_when_leader => {
            context.status.leads().map(drop).ok_or("not leading".into())
        }
        () => match context.status.belief() {
            Belief::Sure(_) => Ok(()),
            Belief::Unsure(why) => Err(why.text()),
        },
    })
}

fn verdict(found: Result<(), String>) -> Response {
    match found {
        Ok(()) => (StatusCode::OK, "ok\n").into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ok: {why}\n")).into_response(),
    }
}

async fn metrics(State(context): State<AnswerContext>) -> Response {
    const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, TEXT)], context.counts.text(&context.status)).into_response()
}
