//! A connection of which something was read already.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads as if nothing had been read.
#[derive(Debug)]
pub(in super::super) struct Begun<Stream> {
    read: Vec<u8>,
    stream: Stream,
}

impl<Stream> Begun<Stream> {
    pub(super) fn new(read: Vec<u8>, stream: Stream) -> Begun<Stream> {
        Begun { read, stream }
    }

    /// The connection itself.
    pub(in super::super) fn inner(&self) -> &Stream {
        &self.stream
    }
}

impl<Stream: AsyncRead + Unpin> AsyncRead for Begun<Stream> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let bytes = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read[..bytes]);
        self.read.drain(..bytes);
        if self.read.is_empty() {
            // For the rest of the connection nobody needs the room.
            self.read = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<Stream: AsyncWrite + Unpin> AsyncWrite for Begun<Stream> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
