//! A request's body on its way to the upstream, frame by frame.
//!
//! Two things must be told apart when nothing moves: a client that does not send, and an upstream that
//! does not take. The body knows, because it is asked for more only when the upstream has taken what
//! there was.

use std::error::Error;
use std::io::{
    self,
    ErrorKind::{InvalidData, InvalidInput},
};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use super::BoxError;

/// What a request brings along: nothing, or what its client sends.
#[derive(Debug, Default)]
pub(super) struct Upload {
    source: Option<Source>,
}

#[derive(Debug)]
struct Source {
    body: Incoming,
    progress: Arc<Progress>,
    /// How long the client may pause.
    wait: Duration,
    pause: Option<Pin<Box<Sleep>>>,
}

/// How far a body is, for those who wait for the answer.
#[derive(Debug, Default)]
pub(super) struct Progress {
    frames: AtomicU64,
    turn: AtomicU8,
    /// Everything was read from the client, and handed on.
    whole: AtomicBool,
}

const UPSTREAMS_TURN: u8 = 0;
const CLIENTS_TURN: u8 = 1;
const FAILED: u8 = 2;
const GARBLED: u8 = 3;

impl Progress {
    /// How many frames there were.
    pub(super) fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Whether the client is the one to move.
    pub(super) fn waits_for_client(&self) -> bool {
        self.turn.load(Ordering::Relaxed) == CLIENTS_TURN
    }

    /// Whether the client hung up, or paused for too long, before it had sent everything.
    pub(super) fn failed(&self) -> bool {
        self.turn.load(Ordering::Relaxed) == FAILED
    }

    /// Whether what the client sent is no body.
    pub(super) fn garbled(&self) -> bool {
        self.turn.load(Ordering::Relaxed) == GARBLED
    }

    /// Whether the client has sent everything, and it was handed on.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }
}

impl Upload {
    /// What a client sends, and how far it is.
    pub(super) fn of(body: Incoming, wait: Duration) -> (Upload, Arc<Progress>) {
        let progress = Arc::new(Progress::default());
        if body.is_end_stream() {
            progress.whole.store(true, Ordering::Relaxed);
            return (Upload::default(), progress);
        }
        let source = Source { body, progress: Arc::clone(&progress), wait, pause: None };
        (Upload { source: Some(source) }, progress)
    }
}

impl Source {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let turn = |turn| self.progress.turn.store(turn, Ordering::Relaxed);
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.progress.frames.fetch_add(1, Ordering::Relaxed);
                turn(UPSTREAMS_TURN);
                self.pause = None;
                // Whoever asks for frames may stop here.
                if self.body.is_end_stream() {
                    self.progress.whole.store(true, Ordering::Relaxed);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                turn(if is_garbled(&error) { GARBLED } else { FAILED });
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(None) => {
                turn(UPSTREAMS_TURN);
                self.progress.whole.store(true, Ordering::Relaxed);
                Poll::Ready(None)
            }
            Poll::Pending => {
                turn(CLIENTS_TURN);
                let wait = self.wait;
                let pause = self.pause.get_or_insert_with(|| {
                    Box::pin(tokio::time::sleep_until(Instant::now() + wait))
                });
                if pause.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.progress.turn.store(FAILED, Ordering::Relaxed);
                Poll::Ready(Some(Err("the client paused for too long".into())))
            }
        }
    }
}

/// Whether a body came to its end because it makes no sense, not because nothing more came.
fn is_garbled(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| matches!(cause.kind(), InvalidInput | InvalidData))
}

impl Body for Upload {
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
