//! An answer's body on its way to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::mpsc;
use tokio::time::Sleep;

use super::BoxError;
use super::pool::{Connection, Pool};

/// What a client gets.
#[derive(Debug)]
pub(super) enum Reply {
    /// Our own words, or none.
    Said(Option<Bytes>),
    /// The upstream's answer to what only passes, straight from its connection.
    Passed(Passed),
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

/// The rest of an answer, and the connection it comes on.
#[derive(Debug)]
pub(super) struct Passed {
    body: Incoming,
    connection: Option<Connection>,
    pool: Arc<Pool>,
    /// How long the upstream may pause.
    wait: Duration,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Passed {
    /// Gives the connection back as soon as there is no more.
    pub(super) fn reply(
        body: Incoming,
        connection: Connection,
        pool: Arc<Pool>,
        wait: Duration,
    ) -> Reply {
        if body.is_end_stream() {
            pool.give_back(connection);
            return Reply::Said(None);
        }
        Reply::Passed(Passed { body, connection: Some(connection), pool, wait, pause: None })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(connection) = &mut self.connection else {
            // The last frame was handed over, and the connection with it.
            return Poll::Ready(None);
        };
        let Poll::Ready(next) = connection.poll_frame(&mut self.body, cx) else {
            let wait = self.wait;
            let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
            ready!(pause.as_mut().poll(cx));
            self.connection = None;
            return Poll::Ready(Some(Err("the upstream paused for too long".into())));
        };
        self.pause = None;
        match next {
            Some(Ok(frame)) => {
                if self.body.is_end_stream() {
                    self.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                self.connection = None;
                Poll::Ready(Some(Err(error.into())))
            }
            None => {
                self.end();
                Poll::Ready(None)
            }
        }
    }

    fn end(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.give_back(connection);
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
            Reply::Passed(passed) => passed.poll(cx),
            Reply::Piped(piped) => piped.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Reply::Said(text) => text.is_none(),
            Reply::Passed(passed) => passed.body.is_end_stream(),
            Reply::Piped(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reply::Said(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Reply::Passed(passed) => passed.body.size_hint(),
            // An answer whose length is known says so in its head.
            Reply::Piped(_) => SizeHint::default(),
        }
    }
}
