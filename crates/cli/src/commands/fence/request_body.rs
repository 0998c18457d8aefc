//! The body of a request on its way to the upstream, and how far it is.
//!
//! When nothing moves, either the client does not send or the upstream does not read. The body knows which:
//! hyper asks it for more only when the upstream has taken what there was.

use std::error::Error;
use std::io::{
    self,
    ErrorKind::{InvalidData, InvalidInput},
};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::BoxError;
use super::idle_timeout::IdleTimeout;

/// The body of a request: none, or what the client sends.
#[derive(Debug, Default)]
pub(super) struct RequestBody {
    source: Option<Source>,
}

#[derive(Debug)]
struct Source {
    body: Incoming,
    shared: Arc<Shared>,
    client_timeout: IdleTimeout,
}

/// How far a request's body is, for the exchange that waits for the answer.
#[derive(Clone, Debug, Default)]
pub(super) struct UploadProgress {
    /// None for a request without a body, which is complete from the start.
    shared: Option<Arc<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    frames: AtomicU64,
    state: AtomicU8,
    complete: AtomicBool,
}

// The values of `Shared::state`.
const UPSTREAM_TO_READ: u8 = 0;
const CLIENT_TO_SEND: u8 = 1;
const CLIENT_STOPPED: u8 = 2;
const MALFORMED: u8 = 3;

impl UploadProgress {
    /// How many frames the upstream was sent.
    pub(super) fn frames(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.frames.load(Ordering::Relaxed))
    }

    /// Whether the next move is the client's.
    pub(super) fn waits_for_client(&self) -> bool {
        self.is(CLIENT_TO_SEND)
    }

    /// Whether the client hung up or paused for too long before it had sent everything.
    pub(super) fn client_stopped(&self) -> bool {
        self.is(CLIENT_STOPPED)
    }

    /// Whether what the client sent is no well-formed body.
    pub(super) fn malformed(&self) -> bool {
        self.is(MALFORMED)
    }

    /// Whether the client has sent everything and it was passed on.
    pub(super) fn is_complete(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.complete.load(Ordering::Relaxed))
    }

    fn is(&self, state: u8) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.state.load(Ordering::Relaxed) == state)
    }
}

/// A limit for an upstream that neither reads nor answers. While the next move is the client's, the client's
/// own limit counts.
#[derive(Debug)]
pub(super) struct UpstreamSilence {
    limit: IdleTimeout,
    upload: UploadProgress,
    /// How far the upload was when the present wait began.
    frames: u64,
}

impl UpstreamSilence {
    pub(super) fn new(limit: IdleTimeout, upload: UploadProgress) -> UpstreamSilence {
        UpstreamSilence { limit, frames: upload.frames(), upload }
    }

    /// The upstream has answered something.
    pub(super) fn reset(&mut self) {
        self.limit.reset();
    }

    /// Ready when the upstream was silent for too long.
    pub(super) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.limit.poll_expired(cx));
            let before = std::mem::replace(&mut self.frames, self.upload.frames());
            if before == self.frames && !self.upload.waits_for_client() {
                return Poll::Ready(());
            }
            self.limit.reset();
        }
    }
}

impl Shared {
    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Relaxed);
    }

    fn set_complete(&self) {
        self.complete.store(true, Ordering::Relaxed);
    }
}

impl RequestBody {
    /// What a client sends, and its progress. The client may pause for `client_timeout`.
    pub(super) fn new(body: Incoming, client_timeout: Duration) -> (RequestBody, UploadProgress) {
        if body.is_end_stream() {
            return (RequestBody::default(), UploadProgress::default());
        }
        let shared = Arc::new(Shared::default());
        let progress = UploadProgress { shared: Some(Arc::clone(&shared)) };
        let client_timeout = IdleTimeout::new(client_timeout);
        (RequestBody { source: Some(Source { body, shared, client_timeout }) }, progress)
    }
}

impl Source {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.shared.frames.fetch_add(1, Ordering::Relaxed);
                self.shared.set(UPSTREAM_TO_READ);
                self.client_timeout.reset();
                // hyper does not ask again after the last frame.
                if self.body.is_end_stream() {
                    self.shared.set_complete();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.shared.set(if is_malformed(&error) { MALFORMED } else { CLIENT_STOPPED });
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(None) => {
                self.shared.set(UPSTREAM_TO_READ);
                self.shared.set_complete();
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.shared.set(CLIENT_TO_SEND);
                if self.client_timeout.poll_expired(cx).is_pending() {
                    return Poll::Pending;
                }
                self.shared.set(CLIENT_STOPPED);
                Poll::Ready(Some(Err("the client paused for too long".into())))
            }
        }
    }
}

/// Whether a body ended because its framing is wrong, not because nothing more came.
fn is_malformed(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| matches!(cause.kind(), InvalidInput | InvalidData))
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.source {
            Some(source) => source.poll(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.source.as_ref().is_none_or(|source| source.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.source.as_ref().map_or(SizeHint::with_exact(0), |source| source.body.size_hint())
    }
}
