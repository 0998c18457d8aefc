//! The body of a response on its way to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::mpsc;

use super::failure::Failure;
use super::idle_timeout::IdleTimeout;
use super::pool::UpstreamConnection;
use super::request_body::{UploadProgress, UpstreamSilence};
use super::{BoxError, Worker};

/// What a client gets.
#[derive(Debug)]
pub(super) enum ResponseBody {
    /// All of it, or none.
    Complete(Option<Bytes>),
    /// The upstream's, read as the client takes it.
    Streamed(Streamed),
    /// The upstream's, read by a task.
    Piped(Piped),
}

impl From<String> for ResponseBody {
    fn from(text: String) -> ResponseBody {
        ResponseBody::Complete(Some(text.into()))
    }
}

impl ResponseBody {
    /// The upstream's answer to a request that holds no passage. It ends with the client's connection.
    pub(super) fn streamed(
        body: Incoming,
        connection: UpstreamConnection,
        worker: Arc<Worker>,
        upload: UploadProgress,
    ) -> ResponseBody {
        let limit = IdleTimeout::new(worker.proxy.timeouts.upstream);
        let mut streamed = Streamed {
            body,
            connection: Some(connection),
            silence: UpstreamSilence::new(limit, upload.clone()),
            upload,
            worker,
        };
        if streamed.body.is_end_stream() {
            streamed.complete();
            return ResponseBody::Complete(None);
        }
        ResponseBody::Streamed(streamed)
    }

    /// A body and the pipe that fills it, with room for so many frames.
    pub(super) fn piped(frames_max: usize) -> (Pipe, ResponseBody) {
        let (sender, frames) = mpsc::channel(frames_max);
        let complete = Arc::new(AtomicBool::new(false));
        let pipe = Pipe { frames: sender, complete: Arc::clone(&complete) };
        (pipe, ResponseBody::Piped(Piped { frames, complete }))
    }
}

/// An answer that is read from the upstream when the client can take more.
#[derive(Debug)]
pub(super) struct Streamed {
    body: Incoming,
    /// None once the answer is complete.
    connection: Option<UpstreamConnection>,
    worker: Arc<Worker>,
    upload: UploadProgress,
    silence: UpstreamSilence,
}

impl Streamed {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.silence.reset();
                // hyper does not ask again after the last frame.
                if self.body.is_end_stream() {
                    self.complete();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.complete();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => self.cut(error.into()),
            Poll::Pending => {
                ready!(self.silence.poll_expired(cx));
                self.cut("the upstream paused for too long".into())
            }
        }
    }

    fn complete(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        if connection.sender.is_ready() {
            self.worker.pool.put(connection);
        } else if self.upload.is_complete() {
            // The upstream closes it behind the answer.
            connection.exchange_complete();
        }
    }

    fn cut(&mut self, cause: BoxError) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.worker.proxy.failed(&Failure::Cut);
        self.connection = None;
        Poll::Ready(Some(Err(cause)))
    }
}

/// An answer's frames, as a task hands them over.
#[derive(Debug)]
pub(super) struct Piped {
    frames: mpsc::Receiver<Frame<Bytes>>,
    complete: Arc<AtomicBool>,
}

/// The task's end of it.
#[derive(Debug)]
pub(super) struct Pipe {
    frames: mpsc::Sender<Frame<Bytes>>,
    complete: Arc<AtomicBool>,
}

impl Pipe {
    /// Hands a frame over, as soon as there is room. False if the client is gone.
    pub(super) async fn send(&self, frame: Frame<Bytes>) -> bool {
        self.frames.send(frame).await.is_ok()
    }

    /// Marks the body as complete. A pipe that is dropped without this fails the client's connection:
    /// a client could not tell otherwise that something is missing from an answer in chunks.
    pub(super) fn complete(self) {
        self.complete.store(true, Ordering::Release);
    }
}

impl Piped {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match ready!(self.frames.poll_recv(cx)) {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None if self.complete.load(Ordering::Acquire) => Poll::Ready(None),
            None => Poll::Ready(Some(Err("the upstream's answer is not complete".into()))),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            ResponseBody::Complete(bytes) => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            ResponseBody::Streamed(streamed) => streamed.poll(cx),
            ResponseBody::Piped(piped) => piped.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Complete(bytes) => bytes.is_none(),
            ResponseBody::Streamed(streamed) => streamed.body.is_end_stream(),
            ResponseBody::Piped(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Complete(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            // An answer whose length is known says so in its head.
            ResponseBody::Streamed(_) | ResponseBody::Piped(_) => SizeHint::default(),
        }
    }
}
