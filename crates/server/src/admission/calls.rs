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
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    routing::future::RouteFuture,
};
use futures_util::future::BoxFuture;
use http::{Request, Response, header::CONTENT_TYPE};
use tenure_api::{Failure, Principal};
use tenure_replica::{Consistency, Operation, Read, command::Lane};
use tokio::time::Sleep;
use tower::Service;

use super::{
    ARRIVING_MAX, CALL_TIME_MAX, CALLS_MAX, Connection, FEW_CALLS, Marked, REQUESTS_MAX,
    SESSION_REQUESTS_MAX, SILENT_AT_FIRST, Unfinished, arrival::Arriving,
};
use crate::{
    auth::{FromGateway, Identities, Identity},
    grpc::refuse,
};

/// How the paths of calls about keys begin: any client may make any number of those.
const ABOUT_KEYS: &str = "/etcdserverpb.KV/";

/// With so many open, more is not read if that can be helped.
const MANY: usize = CALLS_MAX / 2;

/// The open calls of a member, and what has not arrived of any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    open: Arc<AtomicUsize>,
    arriving: Arc<AtomicUsize>,
    unfinished: Arc<AtomicUsize>,
}

impl Calls {
    /// Whether there are so many that reading more would be of no use.
    pub(crate) fn are_many(&self) -> bool {
        self.open.load(Relaxed) >= MANY
    }

    /// For one connection.
    pub(crate) fn connection(&self) -> OpenCalls {
        let count = |all: &Arc<AtomicUsize>| Count { all: all.clone(), own: Arc::default() };
        let unfinished = Unfinished { all: self.unfinished.clone(), own: Arc::default() };
        OpenCalls { open: count(&self.open), arriving: count(&self.arriving), unfinished }
    }
}

/// The open calls of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenCalls {
    /// Calls about keys, from their first bytes to their answer.
    open: Count,
    /// Other calls, until they have arrived.
    arriving: Count,
    pub(crate) unfinished: Unfinished,
}

/// How many there are at the member, and of one connection.
#[derive(Clone, Debug, Default)]
struct Count {
    all: Arc<AtomicUsize>,
    own: Arc<AtomicUsize>,
}

impl Count {
    /// One more call, unless there are too many. It is counted until this is dropped.
    fn begin(&self, max: usize) -> Option<Open> {
        if self.all.load(Relaxed) >= max && self.own.load(Relaxed) >= FEW_CALLS {
            return None;
        }
        self.all.fetch_add(1, Relaxed);
        self.own.fetch_add(1, Relaxed);
        Some(Open(self.clone()))
    }
}

/// A call that is counted.
#[derive(Debug)]
pub(super) struct Open(Count);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.all.fetch_sub(1, Relaxed);
        self.0.own.fetch_sub(1, Relaxed);
    }
}

/// The requests of a member that have no answer yet, counted from when they have arrived whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenRequests(Arc<AtomicUsize>);

impl OpenRequests {
    /// One more, unless there are too many. It is open until this is dropped.
    pub(crate) fn begin(&self, op: &Operation) -> Result<OpenRequest, Failure> {
        let max = match op {
            Operation::Write(command) if command.lane() != Lane::Ordinary => SESSION_REQUESTS_MAX,
            // Whether the loop answers at all: the caller ends the process if it does not.
            Operation::Read(Read::Freshness, Consistency::Serializable) => usize::MAX,
            _ => REQUESTS_MAX,
        };
        let open = OpenRequest(self.clone());
        if self.0.fetch_add(1, Relaxed) >= max {
            return Err(Failure::TooManyRequests);
        }
        Ok(open)
    }
}

/// A request that is open.
pub(crate) struct OpenRequest(OpenRequests);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

/// Services that do not hear of calls that are too many, and hear who asks.
#[derive(Clone)]
pub(crate) struct Admission {
    services: Router,
    /// Without them all clients are strangers.
    identities: Option<Arc<Identities>>,
}

impl Admission {
    pub(crate) fn new(services: Router, identities: Arc<Identities>) -> Admission {
        Admission { services, identities: Some(identities) }
    }

    /// Without users.
    #[cfg(test)]
    pub(crate) fn open(services: Router) -> Admission {
        Admission { services, identities: None }
    }

    fn identify<B>(&self, request: &Request<B>) -> Identity {
        // The gateway's own calls come by here once more.
        let is_json = request.uri().path().starts_with(crate::http::gateway::PATHS);
        let Some(identities) = self.identities.as_ref().filter(|_| !is_json) else {
            return Identity::Known(Principal::Anonymous);
        };
        let extensions = request.extensions();
        let is_from_gateway = extensions.get::<FromGateway>().is_some();
        identities.identify(request.headers(), extensions.get(), is_from_gateway)
    }
}

impl<B> Service<Request<B>> for Admission
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
        let path = request.uri().path();
        let is_about_keys = path.starts_with(ABOUT_KEYS);
        let may_be_silent = SILENT_AT_FIRST.contains(&path);
        let kind = request.headers().get(CONTENT_TYPE);
        let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        let calls = request.extensions().get::<Connection>().map(|known| known.calls.clone());
        let counted = calls.as_ref().map(|calls| match is_about_keys {
            true => calls.open.begin(CALLS_MAX),
            false => calls.arriving.begin(ARRIVING_MAX),
        });
        let (open, ends, arriving) = match counted {
            Some(None) => return Admitting::Refused { body: Body::new(request.into_body()) },
            Some(open) if is_about_keys => {
                (open, Some(Box::pin(tokio::time::sleep(CALL_TIME_MAX))), None)
            }
            Some(arriving) => (None, None, arriving),
            None => (None, None, None),
        };
        let identity = self.identify(&request);
        let held = calls.unwrap_or_default().unfinished.begin();
        let mut request = request.map(|body| match is_grpc {
            true => Arriving::grpc(body, held, arriving, may_be_silent),
            false => Arriving::other(body, held, arriving),
        });
        match identity {
            Identity::Known(by) => {
                request.extensions_mut().insert(Marked(by));
                Admitting::Routed { answer: self.services.call(request), open, ends }
            }
            Identity::Waits(principal) => {
                let mut services = self.services.clone();
                let answer = Box::pin(async move {
                    let by = principal.await;
                    request.extensions_mut().insert(Marked(by));
                    services.call(request.map(Body::new)).await
                });
                Admitting::Identified { answer, open, ends }
            }
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
        // The principal is known a little later.
        Identified {
            answer: BoxFuture<'static, Result<Response<Body>, Infallible>>,
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
                in_time(answer.poll(cx), (open, ends), cx)
            }
            AdmittingNow::Identified { answer, open, ends } => {
                in_time(answer.as_mut().poll(cx), (open, ends), cx)
            }
            AdmittingNow::Refused { body } => {
                while let Some(Ok(_)) = ready!(Pin::new(&mut *body).poll_frame(cx)) {}
                Poll::Ready(Ok(refuse(Failure::TooManyRequests).into_http()))
            }
        }
    }
}

/// The answer, or that it took too long.
fn in_time(
    mut answered: Poll<Result<Response<Body>, Infallible>>,
    (open, ends): (&mut Option<Open>, &mut Option<Pin<Box<Sleep>>>),
    cx: &mut Context<'_>,
) -> Poll<Result<Response<Body>, Infallible>> {
    let is_over = |ends: &mut Pin<Box<Sleep>>| ends.as_mut().poll(cx).is_ready();
    if answered.is_pending() && ends.as_mut().is_some_and(is_over) {
        answered = Poll::Ready(Ok(refuse(Failure::TimedOut).into_http()));
    }
    let answered = ready!(answered);
    open.take();
    Poll::Ready(answered)
}

#[cfg(test)]
mod tests {
    use tenure_api::LeaseId;
    use tenure_replica::command::Command;
    use tonic::Status;

    use super::*;
    use crate::admission::{ARRIVAL_MAX, Link};

    #[test]
    fn only_who_has_many_open_is_refused_when_there_are_too_many() {
        let calls = Calls::default();
        let (loud, quiet) = (calls.connection().open, calls.connection().open);
        let mut open: Vec<Open> = std::iter::from_fn(|| loud.begin(CALLS_MAX)).collect();
        assert_eq!(open.len(), CALLS_MAX);
        assert!(calls.are_many());
        let few: Vec<Open> = std::iter::from_fn(|| quiet.begin(CALLS_MAX)).collect();
        assert_eq!(few.len(), FEW_CALLS);
        open.truncate(CALLS_MAX - FEW_CALLS - 1);
        assert!(loud.begin(CALLS_MAX).is_some(), "there is room again");
        drop((open, few));
        assert!(!calls.are_many());
        assert_eq!(calls.open.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_say_the_rest_of_it_is_not_waited_for() {
        let never = axum::routing::post(async || std::future::pending::<()>().await);
        let mut router = Admission::open(Router::new().route("/etcdserverpb.KV/Put", never));
        let calls = Calls::default();
        let connection = Connection { link: Link::default(), calls: calls.connection(), tls: None };
        let request = Request::post("/etcdserverpb.KV/Put").extension(connection);
        let began = tokio::time::Instant::now();
        let Ok(answer) = router.call(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.headers()["grpc-status"], "14");
        assert_eq!(began.elapsed().as_secs(), CALL_TIME_MAX.as_secs());
        assert_eq!(calls.open.load(Relaxed), 0);
    }

    #[test]
    fn open_requests_beyond_the_limit_leave_a_member_alive() {
        let open = OpenRequests(Arc::new(AtomicUsize::new(REQUESTS_MAX)));
        let fresh = |consistency| Operation::Read(Read::Freshness, consistency);
        assert!(open.begin(&fresh(Consistency::Serializable)).is_ok());
        assert!(open.begin(&Operation::Write(Command::LeaseRenew(LeaseId(1)))).is_ok());
        assert!(open.begin(&fresh(Consistency::Linearizable)).is_err());
        assert_eq!(open.0.load(Relaxed), REQUESTS_MAX, "every slot is given back");
    }

    /// A service that reads its message, as each of them does.
    async fn reads(body: Body) -> Response<Body> {
        match http_body_util::BodyExt::collect(body).await {
            Ok(_) => Response::new(Body::empty()),
            Err(error) => Status::from_error(error.into_inner()).into_http(),
        }
    }

    /// Every call of every service, but for streams that may begin in silence.
    #[tokio::test(start_paused = true)]
    async fn calls_that_do_not_arrive_are_given_up_and_counted_in_all_services() {
        let calls = Calls::default();
        for (path, _) in crate::metrics::all_methods() {
            let mut router =
                Admission::open(Router::new().route(&path, axum::routing::post(reads)));
            let connection =
                Connection { link: Link::default(), calls: calls.connection(), tls: None };
            let request = Request::post(&path).extension(connection);
            let request = request.header(CONTENT_TYPE, "application/grpc");
            let began = tokio::time::Instant::now();
            let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, Status>>());
            let mut answer = Box::pin(router.call(request.body(never).unwrap()));
            let early = tokio::time::timeout(ARRIVAL_MAX / 2, &mut answer).await;
            assert!(early.is_err());
            let open = calls.open.load(Relaxed) + calls.arriving.load(Relaxed);
            assert_eq!(open, 1, "{path} is counted");
            if SILENT_AT_FIRST.contains(&&path[..]) {
                let waited = tokio::time::timeout(2 * ARRIVAL_MAX, answer).await;
                assert!(waited.is_err(), "{path}");
            } else {
                let Ok(answer) = answer.await;
                assert_eq!(answer.headers()["grpc-status"], "1", "{path}");
                assert_eq!(began.elapsed().as_secs(), ARRIVAL_MAX.as_secs());
            }
            let open = calls.open.load(Relaxed) + calls.arriving.load(Relaxed);
            assert_eq!(open, 0, "{path}");
        }
    }

    /// One past the limit, where a connection has many.
    #[tokio::test]
    async fn calls_that_have_not_arrived_are_limited() {
        let calls = Calls::default();
        let loud = calls.connection();
        let never = || Body::from_stream(futures_util::stream::pending::<Result<Bytes, Status>>());
        let path = "/tenure.v1.Sessions/List";
        let mut router = Admission::open(Router::new().route(path, axum::routing::post(reads)));
        let mut call = |calls: &OpenCalls, body: Body| {
            let connection = Connection { link: Link::default(), calls: calls.clone(), tls: None };
            let request = Request::post(path).extension(connection);
            router.call(request.header(CONTENT_TYPE, "application/grpc").body(body).unwrap())
        };
        let begun: Vec<_> = (0..ARRIVING_MAX).map(|_| call(&loud, never())).collect();
        assert_eq!(calls.arriving.load(Relaxed), ARRIVING_MAX);
        let Ok(refused) = call(&loud, Body::empty()).await;
        assert_eq!(refused.headers()["grpc-status"], "8");
        let Ok(quiet) = call(&calls.connection(), Body::empty()).await;
        assert!(quiet.headers().get("grpc-status").is_none(), "another connection goes on");
        drop(begun);
        assert_eq!(calls.arriving.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_about_keys_count_as_json_too() {
        let never = axum::routing::post(async || std::future::pending::<()>().await);
        let services = Admission::open(Router::new().route("/etcdserverpb.KV/Put", never));
        let mut router = Admission::open(crate::http::gateway::routes(&services, 1 << 20));
        let calls = Calls::default();
        let connection = Connection { link: Link::default(), calls: calls.connection(), tls: None };
        let request = Request::post("/v3/kv/put").extension(connection);
        let mut answer = Box::pin(router.call(request.body(Body::from("{}")).unwrap()));
        let early = tokio::time::timeout(CALL_TIME_MAX / 2, &mut answer).await;
        assert!(early.is_err());
        assert_eq!(calls.open.load(Relaxed), 1);
        let Ok(answer) = answer.await;
        assert_eq!(answer.status(), 503);
        assert_eq!(calls.open.load(Relaxed), 0);
    }
}
