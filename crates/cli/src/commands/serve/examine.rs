//! `POST /v3/tenure/doctor`: the examination of `tenure doctor`, for the dashboard and for scripts without our command.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use axum::{
    Router,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::json;
use tenure::grpc::Endpoint;
use tokio::sync::Mutex;
use tracing::debug;

use crate::args::ClientArgs;
use crate::commands::doctor;

/// An examination asks every member about every election. Requests within this time get the same answer,
const FRESH: Duration = Duration::from_secs(3);
/// and within so many times the time that it took: dashboards must not cost members more than they show.
const FRESH_TIMES: u32 = 20;

/// The route, and where it is told how this member is reached once that is known.
#[derive(Clone, Default)]
pub(super) struct Examinations {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    endpoints: OnceLock<Vec<Endpoint>>,
    /// Until when it counts, and what was found.
    last: Mutex<Option<(Instant, String)>>,
}

impl Examinations {
    pub(super) fn routes(&self) -> Router {
        let examinations = self.clone();
        Router::new().route(
            "/v3/tenure/doctor",
            post(async move || {
                let examinations = examinations.clone();
                examinations.answer().await
            }),
        )
    }

    /// This member listens at these URLs.
    pub(super) fn begin(&self, urls: &[String]) {
        let endpoints = urls.iter().filter_map(|url| url.parse().ok()).collect();
        let _ = self.shared.endpoints.set(endpoints);
    }

    async fn answer(&self) -> Response {
        let json = [(header::CONTENT_TYPE, "application/json")];
        match self.examine().await {
            Ok(report) => (json, report).into_response(),
            Err(cause) => {
                debug!("the examination failed: {cause:#}");
                let text = format!("tenure: the members could not be examined: {cause:#}");
                let body = json!({ "error": text, "code": 14, "message": text }).to_string();
                (StatusCode::SERVICE_UNAVAILABLE, json, body).into_response()
            }
        }
    }

    /// One examination at a time; those that wait for it get what it found.
    async fn examine(&self) -> anyhow::Result<String> {
        let mut last = self.shared.last.lock().await;
        if let Some((until, report)) = &*last
            && Instant::now() < *until
        {
            return Ok(report.clone());
        }
        let mut settings = ClientArgs::default().settings()?;
        if let Some(endpoints) = self.shared.endpoints.get().filter(|known| !known.is_empty()) {
            settings.endpoints.clone_from(endpoints);
        }
        let began = Instant::now();
        let report = doctor::report(&settings).await?;
        let until = Instant::now() + FRESH.max(began.elapsed() * FRESH_TIMES);
        *last = Some((until, report.clone()));
        Ok(report)
    }
}
