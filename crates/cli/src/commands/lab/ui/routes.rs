//! What a browser asks the lab for: the catalogue, runs, and measurements.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use tenure_lab::algorithms;
use tenure_lab::tours::TOURS;
use tokio::sync::Semaphore;

use super::super::{compare, list};
use super::runs::{self, NoRun, Wanted};

/// How many runs there are at once; one more is refused.
const RUNS_MAX: usize = 2;
/// The most bytes of a request: a story, a seed and a fault script.
const REQUEST_BYTES_MAX: usize = 256 * 1024;
/// How many seeds the measured table is made of.
const MEASURED_SEEDS: u64 = 3;

#[derive(Clone)]
struct Lab {
    runs: Arc<Semaphore>,
    measured: Arc<Mutex<BTreeMap<&'static str, Value>>>,
}

/// The routes below `/lab/`.
pub(crate) fn routes() -> Router {
    let lab = Lab { runs: Arc::new(Semaphore::new(RUNS_MAX)), measured: Arc::default() };
    Router::new()
        .route("/lab/catalogue", get(catalogue))
        .route("/lab/run", post(run))
        .route("/lab/measured/{algorithm}", get(measured))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(lab)
}

async fn catalogue() -> Response {
    let mut catalogue = list::catalogue_json();
    let tours = TOURS.iter().map(|tour| json!({ "title": tour.title, "story": tour.story }));
    catalogue["tours"] = tours.collect();
    json_answer(StatusCode::OK, &catalogue)
}

async fn run(State(lab): State<Lab>, headers: HeaderMap, body: Bytes) -> Response {
    let wanted: Wanted = match serde_json::from_slice(&body) {
        Ok(wanted) => wanted,
        Err(error) => {
            let why =
                format!("a run is asked for as {{\"story\":…,\"seed\":…,\"faults\":…}}: {error}");
            return json_answer(
                StatusCode::BAD_REQUEST,
                &json!({ "error": why, "kind": "request" }),
            );
        }
    };
    let Ok(permit) = Arc::clone(&lab.runs).try_acquire_owned() else {
        let why = format!("{RUNS_MAX} runs are under way; try again in a moment");
        let body = json!({ "error": why, "kind": "busy" });
        return json_answer(StatusCode::SERVICE_UNAVAILABLE, &body);
    };
    let packs = takes_gzip(&headers);
    // Beside the thread of the network. The permit is given back when the run has ended, whether or not it is still wanted.
    let played = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        runs::play(&wanted).map(|text| if packs { pack(text) } else { text.into_bytes() })
    });
    match played.await {
        Ok(Ok(lines)) => {
            let kind = [
                (header::CONTENT_TYPE, "application/x-ndjson"),
                (header::CACHE_CONTROL, "no-store"),
            ];
            let mut response = (kind, lines).into_response();
            if packs {
                let gzip = header::HeaderValue::from_static("gzip");
                response.headers_mut().insert(header::CONTENT_ENCODING, gzip);
            }
            response
        }
        Ok(Err(no_run)) => {
            let code = match no_run {
                NoRun::Unknown(_) => StatusCode::NOT_FOUND,
                NoRun::Script { .. } => StatusCode::BAD_REQUEST,
                NoRun::TooMuch(_) => StatusCode::UNPROCESSABLE_ENTITY,
            };
            json_answer(code, &no_run.json())
        }
        Err(_) => lab_failed(),
    }
}

/// A row of the table of `tenure lab compare`, made once, when it is first asked for.
async fn measured(State(lab): State<Lab>, Path(name): Path<String>) -> Response {
    let Some(algorithm) = algorithms::algorithm(&name) else {
        let body = json!({ "error": "no algorithm has this name", "kind": "unknown" });
        return json_answer(StatusCode::NOT_FOUND, &body);
    };
    let known =
        || lab.measured.lock().unwrap_or_else(PoisonError::into_inner).get(algorithm.name).cloned();
    if let Some(row) = known() {
        return json_answer(StatusCode::OK, &row);
    }
    let Ok(permit) = Arc::clone(&lab.runs).acquire_owned().await else { return lab_failed() };
    // While this waited, another may have measured it.
    if let Some(row) = known() {
        return json_answer(StatusCode::OK, &row);
    }
    let made = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        compare::measured_json(algorithm, MEASURED_SEEDS)
    });
    let Ok(row) = made.await else { return lab_failed() };
    let mut measured = lab.measured.lock().unwrap_or_else(PoisonError::into_inner);
    measured.insert(algorithm.name, row.clone());
    json_answer(StatusCode::OK, &row)
}

fn lab_failed() -> Response {
    let body = json!({ "error": "the run ended by a fault of the lab", "kind": "lab" });
    json_answer(StatusCode::INTERNAL_SERVER_ERROR, &body)
}

fn json_answer(code: StatusCode, body: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (code, kind, format!("{body}\n")).into_response()
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let takes = headers.get(header::ACCEPT_ENCODING).and_then(|takes| takes.to_str().ok());
    takes.is_some_and(|takes| takes.split(',').any(|one| one.trim().starts_with("gzip")))
}

pub(crate) fn pack(text: String) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer
        .write_all(text.as_bytes())
        .and_then(|()| packer.finish())
        .expect("memory takes all bytes")
}
