//! A client's connection that is not waited for without end.
//!
//! A client that asks and does not read keeps whatever is written to it waiting, and with it a
//! connection, for as long as it likes. Reading has its limits elsewhere; writing has this one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::lane::Begun;
use super::wire::Wire;

/// A stream to which something can be written within a while, or never again.
#[derive(Debug)]
pub(super) struct Patient {
    stream: Begun<Wire>,
    wait: Duration,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    pub(super) fn new(stream: Begun<Wire>, wait: Duration) -> Patient {
        Patient { stream, wait, pause: None }
    }

    fn unless_stuck(
        &mut self,
        cx: &mut Context<'_>,
        writing: impl FnOnce(Pin<&mut Begun<Wire>>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = writing(Pin::new(&mut self.stream), cx) {
            self.pause = None;
            return Poll::Ready(written);
        }
        let wait = self.wait;
        let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(wait)));
        if pause.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        // What is cut off must not look whole, and the kernel need not try for us.
        self.stream.inner().cut();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.unless_stuck(cx, |stream, cx| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.unless_stuck(cx, |stream, cx| stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
