//! Client connections: HTTP/1, few at a time, and none that only sits there.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::stall::Stalls;
use super::{AnswerContext, answers};
use crate::commands::sidecar::campaign::stopped;

/// Connections at a time; more wait in the kernel.
const CONNECTIONS_MAX: usize = 512;
/// How long a connection may take to send the head of a request, or be silent between two.
const HEAD_MAX: Duration = Duration::from_secs(5);
/// How long a connection may leave what was written to it unread, when there is no more room for it.
const UNREAD_MAX: Duration = Duration::from_secs(10);
/// What may wait in a connection for a slow reader.
const BUFFER_BYTES_MAX: usize = 16 * 1024;
/// How long connections may take to finish when we stop.
const FAREWELL: Duration = Duration::from_millis(500);
/// A pause after a failed accept (out of file descriptors, most likely).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The address of the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Answers until `stop`; then lets answers finish.
pub(in crate::commands::sidecar) async fn serve(
    listener: TcpListener,
    context: AnswerContext,
    mut stop: watch::Receiver<bool>,
) {
    let router = answers::routes(context);
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = async {
                let permit = Arc::clone(&room).acquire_owned().await;
                (permit, listener.accept().await)
            } => accepted,
            () = stopped(&mut stop) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        match accepted {
            (permit, Ok((stream, peer))) => {
                let router = router.clone().layer(Extension(Peer(peer)));
                let stop = stop.clone();
                connections.spawn(async move {
                    connection(stream, router, stop).await;
                    drop(permit);
                });
            }
            (_, Err(cause)) => {
                eprintln!("cannot accept a connection: {cause}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let _ = timeout(FAREWELL, async { while connections.join_next().await.is_some() {} }).await;
}

async fn connection(stream: TcpStream, router: Router, mut stop: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(BUFFER_BYTES_MAX);
    let service = TowerToHyperService::new(router);
    let stream = TokioIo::new(Stalls::new(stream, UNREAD_MAX));
    let mut connection = pin!(builder.serve_connection(stream, service));
    // How it ends is the other side's business.
    tokio::select! {
        _ = &mut connection => {}
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
