//! A connection as the rest of the server sees it.
//!
//! Clients and members are served over any [`Stream`]: TCP, or TLS over it. Unix sockets need an implementation here and
//! a listener, nothing else. Code that serves a connection is generic over it, so that a read or a
//! write costs no call through a table.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tenure_tls::TlsStream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::liveness::Liveness;

/// A connection to a client or to another member.
///
/// Its end is read as zero bytes or as an error, whose kind tells a peer that closed it (`ConnectionReset`, `BrokenPipe`,
/// `UnexpectedEof`) from a kernel that gave it up (`TimedOut`).
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Sends small writes at once.
    fn set_nodelay(&self) -> io::Result<()>;

    /// Lets the kernel find out whether the other side is still there, where it can.
    fn watch(&self, liveness: &Liveness) -> io::Result<()>;

    /// The two directions, to be used at the same time. Without a lock between them if the stream needs none.
    fn halves(&mut self) -> (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send);
}

impl Stream for TcpStream {
    fn set_nodelay(&self) -> io::Result<()> {
        TcpStream::set_nodelay(self, true)
    }

    fn watch(&self, liveness: &Liveness) -> io::Result<()> {
        liveness.watch(self)
    }

    fn halves(&mut self) -> (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send) {
        self.split()
    }
}

/// Its end is read as that of the stream below: of a process that died, the kernel closes the connection without TLS's own
/// farewell, which is read as `UnexpectedEof`.
impl<S: Stream> Stream for TlsStream<S> {
    fn set_nodelay(&self) -> io::Result<()> {
        self.get_ref().0.set_nodelay()
    }

    fn watch(&self, liveness: &Liveness) -> io::Result<()> {
        self.get_ref().0.watch(liveness)
    }

    fn halves(&mut self) -> (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send) {
        tokio::io::split(self)
    }
}

/// One of two kinds of connections, or of their halves.
#[derive(Debug)]
pub(crate) enum Either<A, B> {
    A(A),
    B(B),
}

impl<A: AsyncRead + Unpin, B: AsyncRead + Unpin> AsyncRead for Either<A, B> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Either::A(one) => Pin::new(one).poll_read(cx, buffer),
            Either::B(other) => Pin::new(other).poll_read(cx, buffer),
        }
    }
}

impl<A: AsyncWrite + Unpin, B: AsyncWrite + Unpin> AsyncWrite for Either<A, B> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Either::A(one) => Pin::new(one).poll_write(cx, bytes),
            Either::B(other) => Pin::new(other).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Either::A(one) => Pin::new(one).poll_flush(cx),
            Either::B(other) => Pin::new(other).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Either::A(one) => Pin::new(one).poll_shutdown(cx),
            Either::B(other) => Pin::new(other).poll_shutdown(cx),
        }
    }
}

impl<A: Stream, B: Stream> Stream for Either<A, B> {
    fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Either::A(one) => one.set_nodelay(),
            Either::B(other) => other.set_nodelay(),
        }
    }

    fn watch(&self, liveness: &Liveness) -> io::Result<()> {
        match self {
            Either::A(one) => one.watch(liveness),
            Either::B(other) => other.watch(liveness),
        }
    }

    fn halves(&mut self) -> (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send) {
        match self {
            Either::A(one) => {
                let (read, write) = one.halves();
                (Either::A(read), Either::A(write))
            }
            Either::B(other) => {
                let (read, write) = other.halves();
                (Either::B(read), Either::B(write))
            }
        }
    }
}
