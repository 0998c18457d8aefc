//! An answer's body on its way to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use super::BoxError;

/// What a client gets.
#[derive(Debug)]
pub(super) enum Reply {
    /// Our own words, or none.
    Said(Option<Bytes>),
    /// The upstream's answer to an exchange, from the task that has it.
    Piped(Piped),
}

impl From<String> for Reply {
    fn from(text: String) -> Reply {
        Reply::Said(Some(text.into()))
    }
}

/// An answer's frames, as its exchange hands them over.
#[derive(Debug)]
pub(super) struct Piped {
    frames: mpsc::Receiver<Frame<Bytes>>,
    whole: Arc<AtomicBool>,
}

/// The other end of it.
#[derive(Debug)]
pub(super) struct Pipe {
    frames: mpsc::Sender<Frame<Bytes>>,
    whole: Arc<AtomicBool>,
}

impl Pipe {
    /// A pipe with room for so many frames.
    pub(super) fn new(frames_max: usize) -> (Pipe, Reply) {
        let (sender, frames) = mpsc::channel(frames_max);
        let whole = Arc::new(AtomicBool::new(false));
        let pipe = Pipe { frames: sender, whole: Arc::clone(&whole) };
        (pipe, Reply::Piped(Piped { frames, whole }))
    }

    /// Hands a frame over. Says whether anybody is there to take it.
    pub(super) async fn send(&self, frame: Frame<Bytes>) -> bool {
        self.frames.send(frame).await.is_ok()
    }

    /// That was all. A pipe that is dropped without this word tells the client that something is
    /// missing: of an answer in chunks it could not know otherwise.
    pub(super) fn end(self) {
        self.whole.store(true, Ordering::Release);
    }
}

impl Piped {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match ready!(self.frames.poll_recv(cx)) {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None if self.whole.load(Ordering::Acquire) => Poll::Ready(None),
            None => Poll::Ready(Some(Err("the upstream's answer is not complete".into()))),
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Reply::Said(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Reply::Piped(piped) => piped.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Reply::Said(text) => text.is_none(),
            Reply::Piped(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reply::Said(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            // An answer whose length is known says so in its head.
            Reply::Piped(_) => SizeHint::default(),
        }
    }
}
