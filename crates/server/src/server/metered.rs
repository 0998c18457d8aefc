//! A client connection whose bytes are counted, and whose end is noticed.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use prometheus::IntCounter;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

pub(super) struct Metered {
    pub(super) stream: TcpStream,
    pub(super) received: IntCounter,
    pub(super) sent: IntCounter,
    pub(super) link: Link,
}

/// Whether the other side of a connection has closed it. Given to every request that comes over it.
///
/// Only what the other side's kernel says counts: an orderly end or a reset. A connection that this
/// member gives up, because it stops or hears nothing, is not closed by the other side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link(Arc<AtomicBool>);

impl Link {
    /// Of a connection that says so here.
    pub(crate) fn of(gone: Arc<AtomicBool>) -> Link {
        Link(gone)
    }

    fn closed(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Silence is no word: who does not answer may live.
    fn failed(&self, error: &io::Error) {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
        {
            self.closed();
        }
    }

    /// Whether it has.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        let received = buffer.filled().len() - before;
        self.received.inc_by(received as u64);
        match &read {
            Ok(()) if received == 0 && buffer.remaining() > 0 => self.link.closed(),
            Ok(()) => {}
            Err(error) => self.link.failed(error),
        }
        Poll::Ready(read)
    }
}

impl Metered {
    fn sent(&self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        match &written {
            Ok(bytes) => self.sent.inc_by(*bytes as u64),
            Err(error) => self.link.failed(error),
        }
        Poll::Ready(written)
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.sent(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, parts));
        self.sent(written)
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
