//! A client connection whose bytes are counted, and whose end is noticed.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use prometheus::IntCounter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    admission::{Link, ReadPermit},
    io::Stream,
};

pub(super) struct Metered<S> {
    pub(super) stream: S,
    pub(super) received: IntCounter,
    pub(super) sent: IntCounter,
    pub(super) link: Link,
    pub(super) words: Words,
    pub(super) pass: ReadPermit,
    /// The connection was given up here, for silence.
    pub(super) is_given_up: bool,
}

/// How many bytes have been read on a connection, for tasks that wait for its first ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Words(Arc<AtomicUsize>);

impl Words {
    /// The HTTP/2 preface, whole. A client that has sent so much, or a request, speaks.
    const FIRST_BYTES: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

    fn heard(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Something was asked, however short.
    pub(super) fn asked(&self) {
        self.heard(Words::FIRST_BYTES);
    }

    /// Whether the first words are still missing.
    pub(super) fn are_missing(&self) -> bool {
        self.0.load(Ordering::Relaxed) < Words::FIRST_BYTES
    }
}

impl<S: Stream> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.pass.poll_enter(cx));
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        let received = buffer.filled().len() - before;
        self.received.inc_by(received as u64);
        self.words.heard(received);
        self.pass.read(received);
        match &read {
            Ok(()) if received == 0 && buffer.remaining() > 0 => self.ended(),
            Ok(()) => {}
            Err(error) => self.failed(error),
        }
        Poll::Ready(read)
    }
}

impl<S> Metered<S> {
    fn sent(&mut self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        match &written {
            Ok(bytes) => self.sent.inc_by(*bytes as u64),
            Err(error) => self.failed(error),
        }
        Poll::Ready(written)
    }

    /// There is nothing more to read. Of a connection that our kernel gave up that is its own word: it says once
    /// that it did, and from then on what it says of a connection that was closed.
    fn ended(&mut self) {
        if !self.is_given_up {
            self.link.closed();
        }
    }

    /// A timeout says nothing: a client that does not answer may live.
    fn failed(&mut self, error: &io::Error) {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof => self.ended(),
            _ => self.is_given_up = true,
        }
    }
}

impl<S: Stream> AsyncWrite for Metered<S> {
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

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::admission::ReadThrottle;

    /// When nothing is acknowledged any more the kernel says so once, and then that the connection is closed. The
    /// process at the other end may live, and must not lose what it holds for that.
    #[tokio::test]
    async fn a_connection_that_is_given_up_for_silence_was_not_closed_by_the_other_side() {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, HostUnreachable, TimedOut};
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect = async || {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let count = || IntCounter::new("bytes", "of a test").unwrap();
            let (received, sent) = (count(), count());
            let (link, words) = (Link::default(), Words::default());
            let pass = ReadThrottle::new(count()).pass();
            Metered { stream, received, sent, link, words, pass, is_given_up: false }
        };
        for silence in [TimedOut, HostUnreachable] {
            let mut given_up = connect().await;
            given_up.failed(&silence.into());
            given_up.failed(&BrokenPipe.into());
            given_up.ended();
            assert!(!given_up.link.is_gone(), "{silence}");
        }
        let mut reset = connect().await;
        reset.failed(&ConnectionReset.into());
        assert!(reset.link.is_gone());
    }
}
