//! Connections to the upstream, kept open between requests.
//!
//! One pool for each worker, so that a connection and whoever uses it stay on one thread. The
//! connection that came back last is taken first: the others grow old and are closed.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::answer::Failure;
use super::upload::Upload;
use super::upstream::Upstream;

/// How many unused connections a worker keeps.
const IDLE_CONNECTIONS_MAX: usize = 512;
/// How long an unused one is kept. Shorter than what upstreams commonly allow (Node.js closes after
/// 5 s), because a request on a connection that is just being closed fails.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A worker's connections that nobody uses.
#[derive(Debug)]
pub(super) struct Pool {
    upstream: Upstream,
    idle: Mutex<Vec<(Instant, Connection)>>,
}

/// One connection to the upstream. Closed when dropped, whatever is on it.
///
/// Whoever uses it also drives it: hyper would have it on a task of its own, and each request would
/// wake that task and be woken by it. While nobody uses it, nothing moves; what happened meanwhile is
/// seen when it is taken again.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Upload>,
    /// Gone when the connection has ended.
    driver: Option<Pin<Box<Driver>>>,
    /// Whether it has served before: then the upstream may be about to close it.
    pub(super) reused: bool,
}

type Driver = http1::Connection<TokioIo<TcpStream>, Upload>;
type Sent = Result<Response<Incoming>, TrySendError<Request<Upload>>>;

impl Connection {
    /// Sends a request, and waits until its answer begins.
    pub(super) async fn send(&mut self, request: Request<Upload>) -> Sent {
        let mut answer = std::pin::pin!(self.sender.try_send_request(request));
        poll_fn(|cx| {
            drive(&mut self.driver, cx);
            answer.as_mut().poll(cx)
        })
        .await
    }

    /// The next frame of an answer on this connection.
    pub(super) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // To ask for a frame is to want one; without that nothing is read.
        match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(frame),
            Poll::Pending => {
                drive(&mut self.driver, cx);
                Pin::new(body).poll_frame(cx)
            }
        }
    }

    /// Waits for something else, while what is on the connection goes on.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        poll_fn(|cx| {
            drive(&mut self.driver, cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Waits until both request and answer are complete. Says whether it can be used again.
    pub(super) async fn is_done(&mut self) -> bool {
        poll_fn(|cx| self.poll_done(cx)).await
    }

    fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        drive(&mut self.driver, cx);
        self.sender.poll_ready(cx).map(|ready| ready.is_ok())
    }
}

fn drive(driver: &mut Option<Pin<Box<Driver>>>, cx: &mut Context<'_>) {
    // Whoever uses the connection is told what went wrong.
    if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(cx).is_ready()) {
        *driver = None;
    }
}

impl Pool {
    pub(super) fn new(upstream: Upstream) -> Pool {
        Pool { upstream, idle: Mutex::new(Vec::new()) }
    }

    /// A connection that is ready for a request.
    pub(super) async fn take(&self) -> Result<Connection, Failure> {
        while let Some(mut connection) = self.take_idle() {
            // One that does not know at once whether it is ready is not.
            let ready = poll_fn(|cx| Poll::Ready(connection.poll_done(cx))).await;
            if ready == Poll::Ready(true) {
                return Ok(connection);
            }
        }
        self.connect().await
    }

    /// Keeps a connection whose exchange has ended.
    pub(super) fn give_back(&self, mut connection: Connection) {
        connection.reused = true;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push((Instant::now(), connection));
        }
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, connection) = idle.pop()?;
        if since.elapsed() > IDLE_MAX {
            // All below it are older.
            idle.clear();
            return None;
        }
        Some(connection)
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let connecting = TcpStream::connect(self.upstream.address());
        let stream = match tokio::time::timeout(CONNECT_MAX, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(cause)) => return Err(Failure::Unreachable(cause)),
            Err(_) => return Err(Failure::Unreachable(io::ErrorKind::TimedOut.into())),
        };
        let _ = stream.set_nodelay(true);
        let opened = http1::Builder::new().handshake(TokioIo::new(stream)).await;
        let (sender, driver) = opened.map_err(Failure::Broken)?;
        let mut connection = Connection { sender, driver: Some(Box::pin(driver)), reused: false };
        match connection.is_done().await {
            true => Ok(connection),
            false => Err(Failure::Unreachable(io::ErrorKind::ConnectionReset.into())),
        }
    }
}
