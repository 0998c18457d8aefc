//! A connection whose client must read.
//!
//! A client that sends requests and reads no responses fills the buffers between us, and then occupies one of few
//! connections for as long as it likes. So a write that makes no progress for some time is an error, and the connection
//! ends of it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that gives up on readers that do not read.
#[derive(Debug)]
pub(super) struct Stalls<S> {
    stream: S,
    limit: Duration,
    /// Runs while there is no room for what is to be written.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalls<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Stalls<S> {
        Stalls { stream, limit, stalled: None }
    }

    /// What becomes of an attempt to write.
    fn progress<T>(
        &mut self,
        attempt: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.stalled = None;
            return attempt;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other side does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalls<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalls<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.progress(attempt, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.progress(attempt, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);
    /// A reader takes a byte so often: often enough on a busy machine, and all of them take longer than the
    /// limit.
    const PAUSE: Duration = Duration::from_millis(60);
    const BYTES: [u8; 25] = [7; 25];

    #[tokio::test]
    async fn stall_gives_up_a_client_that_reads_nothing() {
        let (ours, _theirs) = duplex(4);
        let mut ours = Stalls::new(ours, LIMIT);
        let failed = ours.write_all(b"more than there is room for").await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn stall_waits_for_a_client_that_reads_slowly() {
        let (ours, mut theirs) = duplex(1);
        let mut ours = Stalls::new(ours, LIMIT);
        let reads = async {
            let mut heard = Vec::new();
            while let Ok(byte) = theirs.read_u8().await {
                heard.push(byte);
                sleep(PAUSE).await;
            }
            heard
        };
        let writes = async move { ours.write_all(&BYTES).await };
        let (heard, written) = tokio::join!(reads, writes);
        assert_eq!(heard, BYTES);
        written.unwrap();
    }
}
