//! Watch: one stream, many watches.
//!
//! The service is written by hand where the others are generated, because its answers are not
//! messages: the events were encoded once for all streams, and only the part before them differs.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use bytes::{BufMut, Bytes};
use futures_util::{Stream, StreamExt};
use prost::Message;
use tenure_api::{
    Failure, Principal, Revision, Span,
    wire::etcdserverpb::{
        self as pb, WatchRequest, WatchResponse, watch_create_request::FilterType,
        watch_request::RequestUnion,
    },
};
use tenure_replica::watch::{Interest, WatchCreate, WatchId, WatchInput, WatchRefusal};
use tokio::sync::{Semaphore, oneshot};
use tonic::{
    Response, Status, Streaming,
    body::Body,
    codec::{Codec, EncodeBuf, Encoder},
    codegen::{BoxFuture, Service, http},
    server::{Grpc, NamedService, StreamingService},
};
use tonic_prost::ProstDecoder;

use super::{REQUEST_OVERHEAD_BYTES, RequestLimits, reply::refuse};
use crate::node::{EncodedEvents, NodeHandle, Stamp, StreamNews, WatchSubscription};

/// Answers that a stream may owe its client before it takes the next request that wants one. A client that
/// asks on and on and never reads is not read either.
const ANSWERS_OWED_MAX: usize = 1024;
/// Undrained bytes that are reported together.
const DRAIN_REPORT_BYTES: usize = 64 << 10;

/// The tower service for `/etcdserverpb.Watch/Watch`.
#[derive(Clone)]
pub(super) struct WatchService {
    node: NodeHandle,
    limits: RequestLimits,
}

impl WatchService {
    pub(super) fn new(node: NodeHandle, limits: RequestLimits) -> WatchService {
        WatchService { node, limits }
    }
}

impl NamedService for WatchService {
    const NAME: &'static str = "etcdserverpb.Watch";
}

impl Service<http::Request<Body>> for WatchService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            if request.uri().path() != "/etcdserverpb.Watch/Watch" {
                return Ok(Status::unimplemented("no such method").into_http());
            }
            let message_max = service.limits.request_bytes_max + REQUEST_OVERHEAD_BYTES;
            let mut grpc =
                Grpc::new(WatchCodec).apply_max_message_size_config(Some(message_max), None);
            Ok(grpc.streaming(service, request).await)
        })
    }
}

impl StreamingService<WatchRequest> for WatchService {
    type Response = Frame;
    type ResponseStream = Frames;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Frames>, Status>> + Send + 'static>>;

    fn call(&mut self, request: tonic::Request<Streaming<WatchRequest>>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (by, requests) = service.node.admit(request)?;
            let subscription = service.node.open_watch();
            let fragmented = Arc::new(Fragmented::default());
            let credit = Credit::new();
            let (failed, failure) = oneshot::channel();
            let asking = Asking {
                by: by.principal().clone(),
                stream: subscription.stream,
                node: service.node.clone(),
                fragmented: fragmented.clone(),
                credit: credit.0.clone(),
                failed,
            };
            tokio::spawn(asking.run(requests));
            let ended = by.wants_leader().then(|| {
                let end: EndOfLeader = Box::pin(leader_gone(service.node.clone(), service.limits));
                end
            });
            Ok(Response::new(Frames {
                subscription,
                node: service.node,
                fragmented,
                credit,
                failure: Some(failure),
                fragment_bytes_max: service.limits.request_bytes_max,
                undrained: 0,
                waiting: vec![],
                ended,
            }))
        })
    }
}

/// Resolves when there has been no raft leader for too long.
pub(super) async fn leader_gone(node: NodeHandle, limits: RequestLimits) {
    loop {
        node.status_when(|status| status.leader.is_none()).await;
        let back = node.status_when(|status| status.leader.is_some());
        if tokio::time::timeout(limits.leaderless_max, back).await.is_err() {
            return;
        }
    }
}

/// Watches of a stream whose large answers may be split.
#[derive(Default)]
struct Fragmented {
    ids: Mutex<BTreeSet<WatchId>>,
    /// Asked for but not numbered yet, in order: the next `Created` tells the number.
    asked: Mutex<std::collections::VecDeque<bool>>,
}

/// The half of a stream that listens to the client.
struct Asking {
    by: Principal,
    stream: u64,
    node: NodeHandle,
    fragmented: Arc<Fragmented>,
    credit: Arc<Semaphore>,
    /// Told if what the client asks cannot be read.
    failed: oneshot::Sender<Status>,
}

impl Asking {
    async fn run(self, mut requests: Streaming<WatchRequest>) {
        // When the client stops asking it may still listen; the outlet closes the stream.
        while let Some(request) = requests.next().await {
            let request: WatchRequest = match request {
                Ok(request) => request,
                Err(status) => {
                    let _ = self.failed.send(status);
                    return;
                }
            };
            // A cancellation has an answer only if there is a watch to end, and that was created.
            let is_owed =
                !matches!(request.request_union, Some(RequestUnion::CancelRequest(_)) | None);
            if is_owed {
                let Ok(owed) = self.credit.acquire().await else { return };
                owed.forget();
            }
            let input = match request.request_union {
                Some(RequestUnion::CreateRequest(create)) => {
                    lock(&self.fragmented.asked).push_back(create.fragment);
                    WatchInput::Create(self.stream, translate(self.by.clone(), create))
                }
                Some(RequestUnion::CancelRequest(cancel)) => {
                    WatchInput::Cancel(self.stream, cancel.watch_id)
                }
                Some(RequestUnion::ProgressRequest(_)) => WatchInput::Progress(self.stream),
                None => continue,
            };
            self.node.watch(input);
        }
    }
}

/// Answers that may still be asked for. The half that talks gives back each one that it has sent; when
/// it is gone, the other half does not wait for it.
struct Credit(Arc<Semaphore>);

impl Credit {
    fn new() -> Credit {
        Credit(Arc::new(Semaphore::new(ANSWERS_OWED_MAX)))
    }

    fn answered(&self) {
        self.0.add_permits(1);
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn translate(by: Principal, create: pb::WatchCreateRequest) -> WatchCreate {
    let filters = |wanted| create.filters().any(|filter| filter == wanted);
    let interest = Interest {
        no_put: filters(FilterType::Noput),
        no_delete: filters(FilterType::Nodelete),
        prev_kv: create.prev_kv,
        span: span(create.key.clone(), create.range_end.clone()),
    };
    WatchCreate {
        by,
        id: (create.watch_id != 0).then_some(create.watch_id),
        interest,
        start: (create.start_revision != 0).then_some(Revision(create.start_revision)),
        progress_notify: create.progress_notify,
    }
}

/// A watch of no key watches from the very first one on.
fn span(key: Bytes, range_end: Bytes) -> Span {
    let key = if key.is_empty() { Bytes::from_static(b"\0") } else { key };
    Span::from_wire(key, range_end)
}

/// One `WatchResponse`, already encoded: what differs, and what is shared.
pub(super) struct Frame {
    head: Vec<u8>,
    events: Bytes,
}

type EndOfLeader = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The half of a stream that talks to the client.
pub(super) struct Frames {
    subscription: WatchSubscription,
    node: NodeHandle,
    fragmented: Arc<Fragmented>,
    credit: Credit,
    failure: Option<oneshot::Receiver<Status>>,
    fragment_bytes_max: usize,
    undrained: usize,
    /// Fragments that follow the one just sent, last first.
    waiting: Vec<Frame>,
    ended: Option<EndOfLeader>,
}

impl Stream for Frames {
    type Item = Result<Frame, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(frame) = self.waiting.pop() {
            return Poll::Ready(Some(Ok(frame)));
        }
        match self.subscription.news.poll_recv(cx) {
            Poll::Ready(Some(news)) => Poll::Ready(Some(self.frame(news))),
            Poll::Ready(None) => Poll::Ready(Some(Err(refuse(Failure::WatchCanceled)))),
            Poll::Pending => {
                self.report_drained();
                if let Some(status) = self.failed(cx) {
                    return Poll::Ready(Some(Err(status)));
                }
                let ended = self.ended.as_mut().map(|ended| ended.as_mut().poll(cx));
                match ended {
                    Some(Poll::Ready(())) => {
                        self.ended = None;
                        Poll::Ready(Some(Err(refuse(Failure::NoLeader))))
                    }
                    _ => Poll::Pending,
                }
            }
        }
    }
}

impl Frames {
    /// Why the client is not heard any more, if it did not just stop asking.
    fn failed(&mut self, cx: &mut Context<'_>) -> Option<Status> {
        let told = match Pin::new(self.failure.as_mut()?).poll(cx) {
            Poll::Ready(told) => told,
            Poll::Pending => return None,
        };
        self.failure = None;
        told.ok()
    }

    fn frame(&mut self, news: StreamNews) -> Result<Frame, Status> {
        Ok(match news {
            StreamNews::Created(id, stamp) => {
                self.credit.answered();
                if lock(&self.fragmented.asked).pop_front() == Some(true) {
                    lock(&self.fragmented.ids).insert(id);
                }
                self.plain(stamp, WatchResponse { watch_id: id, created: true, ..empty() })
            }
            StreamNews::Refused(why, stamp) => {
                self.credit.answered();
                lock(&self.fragmented.asked).pop_front();
                self.plain(stamp, refused(why))
            }
            StreamNews::Cancelled(id, compacted, denied, stamp) => {
                lock(&self.fragmented.ids).remove(&id);
                let reason = match (compacted, denied) {
                    (Some(_), _) => Failure::Compacted.text().to_owned(),
                    (None, Some(failure)) => in_go(failure),
                    (None, None) => String::new(),
                };
                let response = WatchResponse {
                    watch_id: id,
                    canceled: true,
                    compact_revision: compacted.map_or(0, |revision| revision.0),
                    cancel_reason: reason,
                    ..empty()
                };
                self.plain(stamp, response)
            }
            StreamNews::Progress(id, stamp) => {
                if id.is_none() {
                    self.credit.answered();
                }
                self.plain(stamp, WatchResponse { watch_id: id.unwrap_or(-1), ..empty() })
            }
            StreamNews::Events(id, events, stamp) => {
                self.node.metrics.mvcc.events_pending.sub(events.ends.len() as i64);
                self.drained(events.cost);
                self.events(id, &events, stamp)
            }
            StreamNews::Ended(why) => return Err(refuse(why)),
        })
    }

    fn plain(&self, stamp: Stamp, response: WatchResponse) -> Frame {
        let header = Some(self.node.header(stamp));
        Frame { head: WatchResponse { header, ..response }.encode_to_vec(), events: Bytes::new() }
    }

    fn events(&mut self, id: WatchId, events: &EncodedEvents, stamp: Stamp) -> Frame {
        let small = events.bytes.len() <= self.fragment_bytes_max;
        if small || !lock(&self.fragmented.ids).contains(&id) {
            let mut frame = self.plain(stamp, WatchResponse { watch_id: id, ..empty() });
            frame.events = events.bytes.clone();
            return frame;
        }
        let mut parts: Vec<Frame> = split(events, self.fragment_bytes_max)
            .map(|(part, last)| {
                let response = WatchResponse { watch_id: id, fragment: !last, ..empty() };
                Frame { events: part, ..self.plain(stamp, response) }
            })
            .collect();
        parts.reverse();
        let first = parts.pop().expect("events are split into at least one part");
        self.waiting = parts;
        first
    }

    fn drained(&mut self, bytes: usize) {
        self.undrained += bytes;
        if self.undrained >= DRAIN_REPORT_BYTES {
            self.report_drained();
        }
    }

    fn report_drained(&mut self) {
        if self.undrained > 0 {
            self.node.watch(WatchInput::Drained(self.subscription.stream, self.undrained));
            self.undrained = 0;
        }
    }
}

/// A refusal as Go's gRPC prints it: etcd's clients look for the whole text.
fn in_go(failure: Failure) -> String {
    format!("rpc error: code = {:?} desc = {}", failure.code(), failure.text())
}

fn refused(why: WatchRefusal) -> WatchResponse {
    let cancel_reason = match why {
        WatchRefusal::Denied(failure) => in_go(failure),
        why => why.to_string(),
    };
    WatchResponse {
        watch_id: -1,
        created: true,
        canceled: true,
        cancel_reason,
        compact_revision: i64::from(why == WatchRefusal::Compacted),
        ..empty()
    }
}

fn empty() -> WatchResponse {
    WatchResponse::default()
}

/// Parts of at most `bytes_max`, or of one event if that is larger; and whether each is the last.
fn split(events: &EncodedEvents, bytes_max: usize) -> impl Iterator<Item = (Bytes, bool)> + '_ {
    let mut start = 0;
    let mut next = 0;
    std::iter::from_fn(move || {
        if next == events.ends.len() {
            return None;
        }
        let fits = events.ends[next..].iter().take_while(|end| **end - start <= bytes_max).count();
        next += fits.max(1);
        let end = events.ends[next - 1];
        let part = events.bytes.slice(start..end);
        start = end;
        Some((part, next == events.ends.len()))
    })
}

/// The lock is held for a few instructions; a panic in them would be a bug of its own.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Copy)]
struct WatchCodec;

impl Codec for WatchCodec {
    type Encode = Frame;
    type Decode = WatchRequest;
    type Encoder = FrameEncoder;
    type Decoder = ProstDecoder<WatchRequest>;

    fn encoder(&mut self) -> FrameEncoder {
        FrameEncoder
    }

    fn decoder(&mut self) -> ProstDecoder<WatchRequest> {
        ProstDecoder::default()
    }
}

struct FrameEncoder;

impl Encoder for FrameEncoder {
    type Item = Frame;
    type Error = Status;

    fn encode(&mut self, frame: Frame, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&frame.head);
        out.put_slice(&frame.events);
        Ok(())
    }
}
