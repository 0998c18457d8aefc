//! A connection whose end can be decided by somebody else than who speaks on it.
//!
//! hyper owns the stream it speaks on, and closes it politely: whatever the kernel has taken already is
//! still delivered. To an upstream that stood still that is a write of the past, which it applies when it
//! wakes up. So whoever knows how an exchange ended holds the same socket, and may have it closed with a
//! reset, which takes back what was not delivered yet.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::Shutdown;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// One socket, in several hands. Closed when the last one lets go.
#[derive(Clone, Debug)]
pub(super) struct Wire(Arc<TcpStream>);

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Wire {
        Wire(Arc::new(stream))
    }

    /// Has it closed with a reset instead of a farewell.
    pub(super) fn cut(&self) {
        // It fails only for a socket that the kernel has given up already.
        let _ = self.0.set_zero_linger();
    }

    /// Tries until the kernel has something to say other than "not now".
    fn attempt<T>(
        cx: &mut Context<'_>,
        ready: impl Fn(&mut Context<'_>) -> Poll<io::Result<()>>,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            ready!(ready(cx))?;
            match attempt() {
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = &self.0;
        let reading = Wire::attempt(
            cx,
            |cx| stream.poll_read_ready(cx),
            || stream.try_read(buffer.initialize_unfilled()),
        );
        let bytes = ready!(reading)?;
        buffer.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = &self.0;
        Wire::attempt(cx, |cx| stream.poll_write_ready(cx), || stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = &self.0;
        Wire::attempt(cx, |cx| stream.poll_write_ready(cx), || stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        rustix::net::shutdown(&*self.0, Shutdown::Write)?;
        Poll::Ready(Ok(()))
    }
}
