//! TCP sockets under hyper's connections.
//!
//! hyper owns the socket that it speaks on and closes it in good order, so the kernel still delivers what it
//! has taken. For an exchange that was cut off that is wrong on both sides: an upstream that stood still
//! would find an old write in its connection and apply it after a newer one, and a client would take part
//! of an answer for all of it. So the closing is decided by a [`SocketHandle`] outside of hyper. The socket
//! stays open until hyper and the handle have both dropped it, and is closed with a reset if the handle
//! says so: a reset discards what was not delivered yet.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::idle_timeout::IdleTimeout;

const OPEN: &str = "the stream is taken out only when the socket is dropped";

/// A socket that hyper reads and writes.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Option<TcpStream>,
    handle: SocketHandle,
    /// Limits a write that makes no progress. Reading has its limits elsewhere.
    write_timeout: Option<IdleTimeout>,
}

/// Decides how a socket is closed.
#[derive(Clone, Debug, Default)]
pub(super) struct SocketHandle(Arc<Mutex<Closing>>);

#[derive(Debug, Default)]
struct Closing {
    reset: bool,
    /// The stream, once hyper has dropped its socket.
    released: Option<TcpStream>,
}

impl SocketHandle {
    /// Closes the socket with a reset once both sides have dropped it.
    pub(super) fn reset_on_close(&self) {
        let mut closing = self.closing();
        closing.reset = true;
        if let Some(stream) = &closing.released {
            reset_on_close(stream);
        }
    }

    fn closing(&self) -> MutexGuard<'_, Closing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reset_on_close(stream: &TcpStream) {
    // Fails only for a socket that the kernel has given up already.
    let _ = stream.set_zero_linger();
}

impl Socket {
    /// A socket and its handle. With a `write_timeout`, a write that stalls for so long fails, and the
    /// socket is reset.
    pub(super) fn new(
        stream: TcpStream,
        write_timeout: Option<Duration>,
    ) -> (Socket, SocketHandle) {
        // Requests and answers are written as a whole. Nothing is won by holding the last part back.
        let _ = stream.set_nodelay(true);
        let handle = SocketHandle::default();
        let write_timeout = write_timeout.map(IdleTimeout::new);
        (Socket { stream: Some(stream), handle: handle.clone(), write_timeout }, handle)
    }

    fn stream(&mut self) -> Pin<&mut TcpStream> {
        Pin::new(self.stream.as_mut().expect(OPEN))
    }

    /// Passes on the result of a write, unless it stalls for too long.
    fn limit(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Some(timeout) = &mut self.write_timeout else { return written };
        if written.is_ready() {
            timeout.reset();
            return written;
        }
        if timeout.poll_expired(cx).is_pending() {
            return Poll::Pending;
        }
        self.handle.reset_on_close();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut closing = self.handle.closing();
        closing.released = self.stream.take();
        if closing.reset
            && let Some(stream) = &closing.released
        {
            reset_on_close(stream);
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream().poll_write(cx, bytes);
        self.limit(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream().poll_write_vectored(cx, slices);
        self.limit(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (here, listener.accept().await.unwrap().0)
    }

    /// What the peer reads to the end, after both sides have dropped the socket.
    async fn end(reset: bool, handle_first: bool) -> io::Result<String> {
        let (here, mut peer) = pair().await;
        let (mut socket, handle) = Socket::new(here, None);
        socket.write_all(b"sent").await.unwrap();
        if reset && handle_first {
            handle.reset_on_close();
        }
        drop(socket);
        if reset && !handle_first {
            handle.reset_on_close();
        }
        drop(handle);
        let mut read = String::new();
        peer.read_to_string(&mut read).await.map(|_| read)
    }

    #[tokio::test]
    async fn socket_is_closed_as_its_handle_says_whichever_is_dropped_first() {
        assert_eq!(end(false, true).await.unwrap(), "sent");
        assert!(end(true, true).await.is_err());
        assert!(end(true, false).await.is_err());
    }

    #[tokio::test]
    async fn socket_stays_open_while_its_handle_lives() {
        let (here, mut peer) = pair().await;
        let (socket, handle) = Socket::new(here, None);
        drop(socket);
        let reading = tokio::time::timeout(Duration::from_millis(20), peer.read_u8()).await;
        assert!(reading.is_err(), "the peer has seen an end");
        drop(handle);
        assert!(peer.read_u8().await.is_err());
    }

    #[tokio::test]
    async fn socket_is_reset_when_a_write_stalls() {
        let (here, mut peer) = pair().await;
        let (mut socket, handle) = Socket::new(here, Some(Duration::from_millis(20)));
        let bytes = vec![0; 64 * 1024];
        let error = loop {
            if let Err(error) = socket.write_all(&bytes).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop((socket, handle));
        assert!(peer.read_to_end(&mut Vec::new()).await.is_err());
    }
}
