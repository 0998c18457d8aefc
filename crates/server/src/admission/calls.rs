//! How many calls about keys may be open, counted from their first bytes.
//!
//! The node handle counts requests that have arrived whole. Until then each has a stream, a task and a piece of its message
//! here, and a client that asks faster than it is heard would fill the memory with those. So what is too much is refused
//! before anything else is done about it, and only for clients that open so many: a connection with few open calls is never
//! refused here. Calls that wait for their turn, and those that keep sessions alive, do not count: their number has limits
//! elsewhere.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    routing::future::RouteFuture,
};
use http::{Request, Response};
use tenure_api::Failure;
use tokio::time::Sleep;
use tower::Service;

use crate::grpc::refuse;

/// How the paths of calls about keys begin: any client may make any number of those.
const ABOUT_KEYS: &str = "/etcdserverpb.KV/";

/// Open calls at a member, above which connections with many of them may begin no more.
const OPEN_MAX: usize = 10_000;
/// With so many open, more is not read if that can be helped.
const MANY: usize = OPEN_MAX / 2;
/// How long a call may take. One that is whole is answered or given up much earlier, with any settings; one whose rest
/// is never sent would count for ever.
const CALL_MAX: Duration = Duration::from_secs(150);
/// What a connection may have open in any case.
const FEW: usize = 64;

/// The open calls of a member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<AtomicUsize>);

impl Calls {
    /// Whether there are so many that reading more would be of no use.
    pub(crate) fn are_many(&self) -> bool {
        self.0.load(Relaxed) >= MANY
    }

    /// For one connection.
    pub(crate) fn caller(&self) -> Caller {
        Caller { all: self.0.clone(), own: Arc::default() }
    }
}

/// The open calls of a connection. Given to every request that comes over it.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    all: Arc<AtomicUsize>,
    own: Arc<AtomicUsize>,
}

impl Caller {
    /// One more call, unless there are too many. It is open until this is dropped.
    fn begin(&self) -> Option<Open> {
        if self.all.load(Relaxed) >= OPEN_MAX && self.own.load(Relaxed) >= FEW {
            return None;
        }
        self.all.fetch_add(1, Relaxed);
        self.own.fetch_add(1, Relaxed);
        Some(Open(self.clone()))
    }
}

/// A call that is open.
#[derive(Debug)]
struct Open(Caller);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.all.fetch_sub(1, Relaxed);
        self.0.own.fetch_sub(1, Relaxed);
    }
}

/// A router that does not hear of calls that are too many.
#[derive(Clone)]
pub(crate) struct Admitted(pub(crate) Router);

impl<B> Service<Request<B>> for Admitted
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Admitting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Admitting {
        let is_counted = request.uri().path().starts_with(ABOUT_KEYS);
        let begun = request.extensions().get::<Caller>().filter(|_| is_counted).map(Caller::begin);
        match begun {
            Some(None) => Admitting::Refused { body: Body::new(request.into_body()) },
            Some(open) => {
                let ends = Some(Box::pin(tokio::time::sleep(CALL_MAX)));
                Admitting::Routed { answer: self.0.call(request), open, ends }
            }
            None => Admitting::Routed { answer: self.0.call(request), open: None, ends: None },
        }
    }
}

pin_project_lite::pin_project! {
    /// An answer to come.
    #[project = AdmittingNow]
    pub(crate) enum Admitting {
        Routed {
            #[pin]
            answer: RouteFuture<Infallible>,
            open: Option<Open>,
            ends: Option<Pin<Box<Sleep>>>,
        },
        // It is not looked at, but taken in to its end: HTTP/2 takes what still comes for a stream that was ended for a
        // mistake of the client's, and gives up a connection with many of those.
        Refused { body: Body },
    }
}

impl Future for Admitting {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            AdmittingNow::Routed { answer, open, ends } => {
                let mut answered = answer.poll(cx);
                let is_over = |ends: &mut Pin<Box<Sleep>>| ends.as_mut().poll(cx).is_ready();
                if answered.is_pending() && ends.as_mut().is_some_and(is_over) {
                    answered = Poll::Ready(Ok(refuse(Failure::TimedOut).into_http()));
                }
                let answered = ready!(answered);
                open.take();
                Poll::Ready(answered)
            }
            AdmittingNow::Refused { body } => {
                while let Some(Ok(_)) = ready!(Pin::new(&mut *body).poll_frame(cx)) {}
                Poll::Ready(Ok(refuse(Failure::TooManyRequests).into_http()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_many_open_is_refused_when_there_are_too_many() {
        let calls = Calls::default();
        let (loud, quiet) = (calls.caller(), calls.caller());
        let mut open: Vec<Open> = std::iter::from_fn(|| loud.begin()).collect();
        assert_eq!(open.len(), OPEN_MAX);
        assert!(calls.are_many());
        let few: Vec<Open> = std::iter::from_fn(|| quiet.begin()).collect();
        assert_eq!(few.len(), FEW);
        open.truncate(OPEN_MAX - FEW - 1);
        assert!(loud.begin().is_some(), "there is room again");
        drop((open, few));
        assert!(!calls.are_many());
        assert_eq!(calls.0.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_say_the_rest_of_it_is_not_waited_for() {
        let never = axum::routing::post(async || std::future::pending::<()>().await);
        let mut router = Admitted(Router::new().route("/etcdserverpb.KV/Put", never));
        let calls = Calls::default();
        let request = Request::post("/etcdserverpb.KV/Put").extension(calls.caller());
        let began = tokio::time::Instant::now();
        let Ok(answer) = router.call(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.headers()["grpc-status"], "14");
        assert_eq!(began.elapsed().as_secs(), CALL_MAX.as_secs());
        assert_eq!(calls.0.load(Relaxed), 0);
    }
}
