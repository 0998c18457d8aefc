//! `/sse`: how things stand, then every change.
//!
//! An event is made when the connection has room for it, from the `StatusCache` as it is then. So a slow reader misses what
//! came and went meanwhile, and costs no memory; and no event is sent that waited in a queue while it grew old. `event:
//! stale` says that there is no answer any more.

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

use super::AnswerContext;
use super::answers::json_of;
use crate::commands::sidecar::belief::Belief;
use crate::commands::sidecar::campaign::stopped;
use crate::commands::sidecar::status_cache::Headline;
use crate::commands::sidecar::words;

/// A comment so often keeps what stands between from hanging up, and finds readers that have gone.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

pub(super) async fn stream(State(context): State<AnswerContext>) -> Response {
    let Ok(permit) = Arc::clone(&context.streams).try_acquire_owned() else {
        let why = json!({ "error": "too many streams are open" });
        return json_of(StatusCode::SERVICE_UNAVAILABLE, &why);
    };
    let events = stream::unfold(Listener::new(context, permit), |mut listener| async move {
        let text = listener.next().await?;
        Some((Ok::<_, Infallible>(text), listener))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

/// One reader of the stream.
struct Listener {
    context: AnswerContext,
    news: watch::Receiver<Headline>,
    greeted: bool,
    _permit: OwnedSemaphorePermit,
}

impl Listener {
    fn new(context: AnswerContext, permit: OwnedSemaphorePermit) -> Listener {
        context.counts.stream_opened();
        let news = context.status.listen();
        Listener { context, news, greeted: false, _permit: permit }
    }

    /// The next piece of text; nothing at the end.
    async fn next(&mut self) -> Option<String> {
        if !std::mem::replace(&mut self.greeted, true) {
            self.news.mark_unchanged();
            return Some(self.event());
        }
        tokio::select! {
            biased;
            () = stopped(&mut self.context.stop) => None,
            changed = self.news.changed() => changed.ok().map(|()| self.event()),
            () = sleep(KEEP_ALIVE) => Some(": still here\n\n".into()),
        }
    }

    fn event(&self) -> String {
        let (judged_unix_ms, belief) = self.context.status.dated_belief();
        let kind = if let Belief::Sure(_) = belief { "leader" } else { "stale" };
        let data = words::whole(&self.context.status, &belief, judged_unix_ms);
        format!("event: {kind}\ndata: {data}\n\n")
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.context.counts.stream_closed();
    }
}

#[cfg(test)]
mod tests {
    use tenure::FencingToken;
    use tenure::clock::{Boottime, Clock};
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;
    use crate::commands::sidecar::belief::{Leader, News};
    use crate::commands::sidecar::http::Healthz;
    use crate::commands::sidecar::status_cache::StatusCache;

    fn led_by(name: &str, token: i64) -> News {
        let leader = Leader {
            name: name.into(),
            value: String::new(),
            token: FencingToken::from_revision(token).unwrap(),
            session: 1,
            since_unix_ms: None,
        };
        News { leader: Some(leader), as_of: Boottime.now(), delayed: false }
    }

    /// Nothing is made before there is room for it, so nothing waits in a queue and grows old.
    #[tokio::test]
    async fn events_leave_out_for_a_slow_reader_what_came_and_went() {
        let status =
            Arc::new(StatusCache::new("jobs".into(), None, String::new(), KEEP_ALIVE * 100));
        let (orders, _wanted) = mpsc::channel(1);
        let (_stop, stop) = watch::channel(false);
        let context = AnswerContext {
            status: Arc::clone(&status),
            counts: Arc::default(),
            healthz: Healthz::Lease,
            ready_when_leader: false,
            grace: Duration::ZERO,
            orders,
            step_down_token: None,
            stop,
            browsers: Arc::default(),
            streams: AnswerContext::streams(),
        };
        let permit = Arc::clone(&context.streams).try_acquire_owned().unwrap();
        let mut listener = Listener::new(context, permit);
        let mut heard = status.listen();
        tokio::spawn({
            let status = Arc::clone(&status);
            async move { status.tell_changes().await }
        });
        assert!(listener.next().await.unwrap().starts_with("event: stale\n"));
        for (name, token) in [("a", 1), ("b", 2), ("c", 3)] {
            status.hear(led_by(name, token));
            let told = heard
                .wait_for(|told| matches!(told, Some((Some((leader, ..)), _)) if leader == name));
            told.await.unwrap();
        }
        let event = listener.next().await.unwrap();
        assert!(event.contains(r#""name":"c""#), "how things stand: {event}");
        let more = timeout(Duration::ZERO, listener.next()).await;
        assert!(more.is_err(), "what came and went is not kept: {more:?}");
    }
}
