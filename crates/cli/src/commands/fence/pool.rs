//! Connections to the upstream, kept open between requests.
//!
//! Each worker has a pool, so that hyper's task for a connection and the requests that use it run on one
//! thread. The connection that was returned last is taken first; the others grow old and are closed.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tenure::tls::ClientTls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::failure::Failure;
use super::request_body::RequestBody;
use super::socket::{Socket, SocketHandle};
use super::upstream::Upstream;

/// How many idle connections a worker keeps.
const IDLE_CONNECTIONS_MAX: usize = 512;
/// How long an idle connection is kept. Shorter than what upstreams commonly allow (Node.js closes after
/// 5 s), because a request on a connection that is just being closed fails.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// How long the head of an answer may be.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A worker's idle connections.
#[derive(Debug)]
pub(super) struct Pool {
    upstream: Upstream,
    tls: Option<Arc<ClientTls>>,
    idle: Mutex<Vec<(Instant, UpstreamConnection)>>,
}

/// One connection to the upstream. It is closed when it is dropped, with a reset if an exchange is under
/// way on it: what the upstream has not got yet must not reach it after a newer holder was admitted.
#[derive(Debug)]
pub(super) struct UpstreamConnection {
    pub(super) sender: SendRequest<RequestBody>,
    task: AbortHandle,
    socket: SocketHandle,
    in_exchange: bool,
    /// Whether it has served a request before: then the upstream may be about to close it.
    pub(super) reused: bool,
}

impl Drop for UpstreamConnection {
    fn drop(&mut self) {
        if self.in_exchange {
            self.socket.reset_on_close();
        }
        self.task.abort();
    }
}

impl UpstreamConnection {
    /// Both sides have sent all of the exchange.
    pub(super) fn exchange_complete(&mut self) {
        self.in_exchange = false;
    }
}

impl Pool {
    /// By TLS, if there is any.
    pub(super) fn new(upstream: Upstream, tls: Option<Arc<ClientTls>>) -> Pool {
        Pool { upstream, tls, idle: Mutex::new(Vec::new()) }
    }

    /// A connection that is ready for a request.
    pub(super) async fn take(&self) -> Result<UpstreamConnection, Failure> {
        while let Some(mut connection) = self.take_idle() {
            connection.in_exchange = true;
            if connection.sender.is_ready() || connection.sender.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        // Rare, and large: inside of every request's future it would be copied with it.
        Box::pin(self.connect()).await
    }

    /// Keeps a connection whose exchange is complete.
    pub(super) fn put(&self, mut connection: UpstreamConnection) {
        connection.reused = true;
        connection.exchange_complete();
        let mut idle = self.idle();
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push((Instant::now(), connection));
        }
    }

    /// Closes connections that were idle for too long.
    pub(super) fn close_old(&self) {
        self.idle().retain(|(since, connection)| {
            since.elapsed() <= IDLE_MAX && !connection.sender.is_closed()
        });
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Instant, UpstreamConnection)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_idle(&self) -> Option<UpstreamConnection> {
        let mut idle = self.idle();
        while let Some((since, connection)) = idle.pop() {
            if since.elapsed() > IDLE_MAX {
                // All below it are older.
                idle.clear();
                return None;
            }
            if !connection.sender.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    async fn connect(&self) -> Result<UpstreamConnection, Failure> {
        let connecting = TcpStream::connect(self.upstream.address());
        let stream = match tokio::time::timeout(CONNECT_MAX, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(cause)) => return Err(Failure::Unreachable(cause)),
            Err(_) => return Err(Failure::Unreachable(io::ErrorKind::TimedOut.into())),
        };
        // A write that stalls here is the upstream's silence, which the exchange limits.
        let (socket, handle) = Socket::new(stream, None);
        let Some(tls) = &self.tls else { return speak(socket, handle).await };
        let (host, _) = self.upstream.address();
        match tokio::time::timeout(CONNECT_MAX, tls.connect(host, socket, &["http/1.1"])).await {
            Ok(Ok(secured)) => speak(secured, handle).await,
            Ok(Err(cause)) => Err(Failure::Unreachable(cause)),
            Err(_) => Err(Failure::Unreachable(io::ErrorKind::TimedOut.into())),
        }
    }
}

/// Begins HTTP on a connection to the upstream.
async fn speak<S>(stream: S, handle: SocketHandle) -> Result<UpstreamConnection, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new();
    // One buffer for head and body: to copy a short body costs less than a vectored write.
    builder.max_header_size(HEAD_BYTES_MAX).writev(false);
    let opened = builder.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = opened.map_err(|error| Failure::Broken(error.to_string()))?;
    let task = tokio::spawn(async move {
        // The exchange on it is told what went wrong.
        let _ = connection.await;
    });
    Ok(UpstreamConnection {
        sender,
        task: task.abort_handle(),
        socket: handle,
        in_exchange: true,
        reused: false,
    })
}
