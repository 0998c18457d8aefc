//! Connections to the upstream, kept open between requests.
//!
//! One pool for each worker, so that a connection's task and whoever uses it run on one thread. The
//! connection that came back last is taken first: the others grow old and are closed.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::answer::Failure;
use super::upload::Upload;
use super::upstream::Upstream;
use super::wire::Wire;

/// How many unused connections a worker keeps.
pub(super) const IDLE_CONNECTIONS_MAX: usize = 512;
/// How long an unused one is kept. Shorter than what upstreams commonly allow (Node.js closes after
/// 5 s), because a request on a connection that is just being closed fails.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(4);
/// How long the head of an answer may be.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A worker's connections that nobody uses.
#[derive(Debug)]
pub(super) struct Pool {
    upstream: Upstream,
    idle: Mutex<Vec<(Instant, Connection)>>,
}

/// One connection to the upstream. Closed when dropped, whatever is on it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<Upload>,
    task: AbortHandle,
    wire: Wire,
    /// Whether nothing is under way on it. If something is, what the upstream has not got yet must not
    /// reach it after a newer holder was let in.
    done: bool,
    /// Whether it has served before: then the upstream may be about to close it.
    pub(super) reused: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.done {
            self.wire.cut();
        }
        self.task.abort();
    }
}

impl Connection {
    /// What was under way is complete on both sides.
    pub(super) fn is_done(&mut self) {
        self.done = true;
    }
}

impl Pool {
    pub(super) fn new(upstream: Upstream) -> Pool {
        Pool { upstream, idle: Mutex::new(Vec::new()) }
    }

    /// A connection that is ready for a request.
    pub(super) async fn take(&self) -> Result<Connection, Failure> {
        while let Some(mut connection) = self.take_idle() {
            connection.done = false;
            if connection.sender.is_ready() || connection.sender.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        self.connect().await
    }

    /// Keeps a connection whose exchange has ended.
    pub(super) fn give_back(&self, mut connection: Connection) {
        connection.reused = true;
        connection.is_done();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push((Instant::now(), connection));
        }
    }

    /// Closes those that nobody used for long.
    pub(super) fn sweep(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(since, connection)| {
            since.elapsed() <= IDLE_MAX && !connection.sender.is_closed()
        });
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
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

    async fn connect(&self) -> Result<Connection, Failure> {
        let wire = Wire::new(connect(&self.upstream).await?);
        let mut builder = Builder::new();
        builder.max_header_size(HEAD_BYTES_MAX);
        let opened = builder.handshake(TokioIo::new(wire.clone())).await;
        let (sender, connection) = opened.map_err(|error| Failure::Broken(error.to_string()))?;
        let task = tokio::spawn(async move {
            // Whoever uses it is told what went wrong.
            let _ = connection.await;
        });
        Ok(Connection { sender, task: task.abort_handle(), wire, done: false, reused: false })
    }
}

/// A new connection, on which nothing was said yet.
pub(super) async fn connect(upstream: &Upstream) -> Result<TcpStream, Failure> {
    let connecting = TcpStream::connect(upstream.address());
    let stream = match tokio::time::timeout(CONNECT_MAX, connecting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(cause)) => return Err(Failure::Unreachable(cause)),
        Err(_) => return Err(Failure::Unreachable(io::ErrorKind::TimedOut.into())),
    };
    let _ = stream.set_nodelay(true);
    Ok(stream)
}
