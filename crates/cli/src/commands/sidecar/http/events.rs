//! `/sse`: how things stand, then every change.
//!
//! An event is made when the connection has room for it, from the desk as it is then. So a reader that
//! is slow misses what came and went meanwhile, and costs no memory; and nobody is sent an event that
//! waited in a queue while it grew old. `event: stale` says that there is no answer any more.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::sleep;

use super::Door;
use super::answers::json_of;
use crate::commands::sidecar::belief::Belief;
use crate::commands::sidecar::campaign::stopped;
use crate::commands::sidecar::desk::Headline;
use crate::commands::sidecar::words;

/// A comment so often keeps what stands between from hanging up, and finds readers that have gone.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

pub(super) async fn stream(State(door): State<Door>) -> Response {
    let Ok(permit) = Arc::clone(&door.streams).try_acquire_owned() else {
        let why = json!({ "error": "too many streams are open" });
        return json_of(StatusCode::SERVICE_UNAVAILABLE, &why);
    };
    let events = stream::unfold(Listener::new(door, permit), |mut listener| async move {
        let text = listener.next().await?;
        Some((Ok::<_, Infallible>(text), listener))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

/// Somebody who listens.
struct Listener {
    door: Door,
    news: watch::Receiver<Headline>,
    greeted: bool,
    _permit: OwnedSemaphorePermit,
}

impl Listener {
    fn new(door: Door, permit: OwnedSemaphorePermit) -> Listener {
        door.counts.stream_opened();
        let news = door.desk.listen();
        Listener { door, news, greeted: false, _permit: permit }
    }

    /// The next piece of text; nothing at the end.
    async fn next(&mut self) -> Option<String> {
        if !std::mem::replace(&mut self.greeted, true) {
            self.news.mark_unchanged();
            return Some(self.event());
        }
        tokio::select! {
            biased;
            () = stopped(&mut self.door.stop) => None,
            changed = self.news.changed() => changed.ok().map(|()| self.event()),
            () = sleep(KEEP_ALIVE) => Some(": still here\n\n".into()),
        }
    }

    fn event(&self) -> String {
        let belief = self.door.desk.belief();
        let kind = if let Belief::Sure(_) = belief { "leader" } else { "stale" };
        format!("event: {kind}\ndata: {}\n\n", words::whole(&self.door.desk, &belief))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.door.counts.stream_closed();
    }
}
