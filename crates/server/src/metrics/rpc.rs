//! `grpc_server_*`: requests by method, as go-grpc-prometheus counts them.
//!
//! [`Counted`] wraps the whole router. Handles for each method are looked up once, at start;
//! a request costs a search in a sorted list and four additions. Messages of streams are counted in
//! their bytes, so that no service has to know.
//!
//! Each request also has a span, at level trace, for an exporter of spans. Without one it is
//! never made.

use std::{
    cmp::Ordering,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Instant,
};

use axum::body::{Body, Bytes, HttpBody};
use http::{HeaderMap, HeaderName, Request, Response};
use http_body::{Frame, SizeHint};
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec};
use tower::Service;
use tracing::{Span, field::Empty, trace_span};

use super::{
    Metrics,
    make::{Buckets, Maker},
    messages::MessageCounter,
};
use crate::{
    admission::{Admission, Admitting},
    config::MetricsDetail,
    grpc::in_words_of_grpc_go,
    traces,
};

const UNARY: &str = "unary";
const SERVER_STREAM: &str = "server_stream";
const BIDI_STREAM: &str = "bidi_stream";

/// Every method of etcd's API and of our own, served already or not.
#[rustfmt::skip]
const METHODS: &[(&str, &str, &[&str])] = &[
    ("etcdserverpb.KV", UNARY, &["Range", "Put", "DeleteRange", "Txn", "Compact"]),
    ("etcdserverpb.Watch", BIDI_STREAM, &["Watch"]),
    ("etcdserverpb.Lease", UNARY, &["LeaseGrant", "LeaseRevoke", "LeaseTimeToLive", "LeaseLeases"]),
    ("etcdserverpb.Lease", BIDI_STREAM, &["LeaseKeepAlive"]),
    ("etcdserverpb.Cluster", UNARY, &["MemberAdd", "MemberRemove", "MemberUpdate", "MemberList", "MemberPromote"]),
    ("etcdserverpb.Maintenance", UNARY, &["Alarm", "Status", "Defragment", "Hash", "HashKV", "MoveLeader", "Downgrade"]),
    ("etcdserverpb.Maintenance", SERVER_STREAM, &["Snapshot"]),
    ("etcdserverpb.Auth", UNARY, &[
        "AuthEnable", "AuthDisable", "AuthStatus", "Authenticate", "UserAdd", "UserGet", "UserList", "UserDelete",
        "UserChangePassword", "UserGrantRole", "UserRevokeRole", "RoleAdd", "RoleGet", "RoleList", "RoleDelete",
        "RoleGrantPermission", "RoleRevokePermission",
    ]),
    ("v3electionpb.Election", UNARY, &["Campaign", "Proclaim", "Leader", "Resign"]),
    ("v3electionpb.Election", SERVER_STREAM, &["Observe"]),
    ("v3lockpb.Lock", UNARY, &["Lock", "Unlock"]),
    ("tenure.v1.Sessions", BIDI_STREAM, &["Session"]),
    ("tenure.v1.Sessions", UNARY, &["End", "List"]),
    ("tenure.v1.Members", UNARY, &["Health"]),
    ("tenure.v1.Elections", UNARY, &["Candidates", "History", "List", "Transfer", "Evict", "Freeze", "Resume"]),
    ("tenure.v1.Elections", SERVER_STREAM, &["Observe", "Follow"]),
    ("grpc.health.v1.Health", UNARY, &["Check"]),
    ("grpc.health.v1.Health", SERVER_STREAM, &["Watch"]),
];

/// The path of each method, and its kind.
#[cfg(test)]
pub(crate) fn all_methods() -> impl Iterator<Item = (String, &'static str)> {
    let of = |(service, kind, names): &'static (&str, &str, &[&str])| {
        names.iter().map(move |name| (format!("/{service}/{name}"), *kind))
    };
    METHODS.iter().flat_map(of)
}

/// gRPC's codes by number, as Go names them.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];
const OK: usize = 0;
const CANCELED: usize = 1;
const UNKNOWN: usize = 2;

pub(crate) struct RpcMetrics {
    /// Sorted by path, shorter ones first: most of a search is then comparing lengths.
    methods: Vec<Method>,
    handled: IntCounterVec,
}

struct Method {
    path: String,
    labels: [&'static str; 3],
    started: IntCounter,
    received: IntCounter,
    sent: IntCounter,
    handled: [OnceLock<IntCounter>; CODES.len()],
    latency: Option<Histogram>,
}

impl Method {
    fn is_unary(&self) -> bool {
        self.labels[0] == UNARY
    }
}

impl RpcMetrics {
    pub(super) fn new(make: &Maker<'_>, detail: MetricsDetail) -> RpcMetrics {
        const LABELS: [&str; 3] = ["grpc_type", "grpc_service", "grpc_method"];
        let counters = |name, help| make.counters(name, help, &LABELS);
        let started = counters("grpc_server_started_total", "Requests that came in.");
        let received = counters("grpc_server_msg_received_total", "Messages received.");
        let sent = counters("grpc_server_msg_sent_total", "Messages sent.");
        let latency: Option<HistogramVec> = (detail == MetricsDetail::Extensive).then(|| {
            let help = "How long requests took, streams until their end.";
            let buckets = Buckets { first: 0.0001, count: 18 };
            make.histograms("grpc_server_handling_seconds", help, &LABELS, buckets)
        });
        let handled = make.counters(
            "grpc_server_handled_total",
            "Requests that ended, by how.",
            &["grpc_type", "grpc_service", "grpc_method", "grpc_code"],
        );
        let mut methods: Vec<Method> = Vec::new();
        for (service, kind, names) in METHODS {
            methods.extend(names.iter().map(|name| {
                let labels = [*kind, *service, *name];
                let method = Method {
                    path: format!("/{service}/{name}"),
                    labels,
                    started: started.with_label_values(&labels),
                    received: received.with_label_values(&labels),
                    sent: sent.with_label_values(&labels),
                    handled: Default::default(),
                    latency: latency.as_ref().map(|all| all.with_label_values(&labels)),
                };
                // A rate needs a beginning; the other codes appear when they occur.
                let [kind, service, name] = labels;
                let ok = handled.with_label_values(&[kind, service, name, CODES[OK]]);
                let _ = method.handled[OK].set(ok);
                method
            }));
        }
        methods.sort_by(|a, b| order(&a.path, &b.path));
        RpcMetrics { methods, handled }
    }

    fn find(&self, path: &str) -> Option<usize> {
        self.methods.binary_search_by(|method| order(&method.path, path)).ok()
    }

    fn ended(&self, method: &Method, code: usize) {
        let counter = method.handled[code].get_or_init(|| {
            let [kind, service, name] = method.labels;
            self.handled.with_label_values(&[kind, service, name, CODES[code]])
        });
        counter.inc();
    }
}

fn order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// A router whose gRPC requests are counted.
#[derive(Clone)]
pub(crate) struct Counted {
    pub(crate) router: Admission,
    pub(crate) metrics: Arc<Metrics>,
}

impl<B> Service<Request<B>> for Counted
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        let Some(at) = self.metrics.rpc.find(request.uri().path()) else {
            return Answering { inner: self.router.call(request), call: None };
        };
        let method = &self.metrics.rpc.methods[at];
        method.started.inc();
        let began = (method.latency.is_some() || method.labels[2] == "HashKV").then(Instant::now);
        let span = span(method);
        let call = Call { metrics: self.metrics.clone(), method: at, began, span, ended: false };
        let inner = if method.is_unary() {
            method.received.inc();
            self.router.call(request)
        } else {
            let received = method.received.clone();
            self.router.call(request.map(|body| {
                let inner = Body::new(body);
                Body::new(Stream {
                    inner,
                    messages: Default::default(),
                    counter: received,
                    call: None,
                })
            }))
        };
        Answering { inner, call: Some(call) }
    }
}

/// A request that is under way. Dropped before its end, it was cancelled.
struct Call {
    metrics: Arc<Metrics>,
    method: usize,
    began: Option<Instant>,
    span: Span,
    ended: bool,
}

/// What OpenTelemetry's conventions say about a gRPC request.
fn span(method: &Method) -> Span {
    let [_, service, name] = method.labels;
    trace_span!(
        target: traces::REQUESTS,
        "rpc",
        otel.name = &method.path[1..],
        otel.kind = "server",
        rpc.system = "grpc",
        rpc.service = service,
        rpc.method = name,
        rpc.grpc.status_code = Empty,
    )
}

impl Call {
    fn method(&self) -> &Method {
        &self.metrics.rpc.methods[self.method]
    }

    fn end(&mut self, code: usize) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let method = &self.metrics.rpc.methods[self.method];
        self.metrics.rpc.ended(method, code);
        self.span.record("rpc.grpc.status_code", code);
        if let Some(took) = self.began.map(|began| began.elapsed().as_secs_f64()) {
            if let Some(latency) = &method.latency {
                latency.observe(took);
            }
            if method.labels[2] == "HashKV" {
                self.metrics.mvcc.hash.observe(took);
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.end(CANCELED);
    }
}

pin_project_lite::pin_project! {
    /// An answer to come.
    pub(crate) struct Answering {
        #[pin]
        inner: Admitting,
        call: Option<Call>,
    }
}

impl Future for Answering {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let entered = this.call.as_ref().map(|call| call.span.enter());
        let Ok(mut response) = ready!(this.inner.poll(cx));
        drop(entered);
        in_words_of_grpc_go(response.headers_mut());
        let Some(mut call) = this.call.take() else { return Poll::Ready(Ok(response)) };
        // An answer that failed at once is nothing but headers, its code among them.
        let code = if response.body().is_end_stream() { code_in(response.headers()) } else { None };
        if !call.method().is_unary() && code.is_none() {
            let counter = call.method().sent.clone();
            return Poll::Ready(Ok(response.map(|inner| {
                Body::new(Stream { inner, messages: Default::default(), counter, call: Some(call) })
            })));
        }
        let code = code.unwrap_or(OK);
        if code == OK {
            call.method().sent.inc();
        }
        call.end(code);
        Poll::Ready(Ok(response))
    }
}

fn code_in(headers: &HeaderMap) -> Option<usize> {
    const STATUS: HeaderName = HeaderName::from_static("grpc-status");
    let code = headers.get(STATUS)?.to_str().ok()?.parse().unwrap_or(UNKNOWN);
    Some(if code < CODES.len() { code } else { UNKNOWN })
}

/// A body whose messages are counted, and whose end is the end of the call.
struct Stream {
    inner: Body,
    messages: MessageCounter,
    counter: IntCounter,
    call: Option<Call>,
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(trailers) = frame.as_mut().and_then(|frame| frame.as_mut().ok()?.trailers_mut())
        {
            in_words_of_grpc_go(trailers);
        }
        if let Some(Ok(frame)) = &frame {
            if let Some(data) = frame.data_ref() {
                let begun = self.messages.count(data);
                self.counter.inc_by(begun);
            } else if let (Some(trailers), Some(call)) = (frame.trailers_ref(), &mut self.call) {
                call.end(code_in(trailers).unwrap_or(UNKNOWN));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
