//! Client connections: gRPC and HTTP/1 on one port.

use std::{pin::pin, time::Duration};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tower::ServiceExt;
use tracing::{debug, warn};

use super::metered::{Link, Metered};
use crate::metrics::Counted;

/// Requests that one connection may have under way.
const STREAMS_PER_CONNECTION_MAX: u32 = 100_000;
/// How much a client may send ahead on one request and on one connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// How long connections may take to finish what they began when the server stops.
const FAREWELL: Duration = Duration::from_millis(1000);
/// How long somebody is still let in when the server stops.
const LAST_CALL: Duration = Duration::from_millis(10);
/// A pause after a failed accept (out of file descriptors, most likely).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves clients until told to stop; then lets them finish.
pub(super) async fn clients(
    listener: TcpListener,
    router: Counted,
    mut stopping: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, router.clone(), stopping.clone()));
                }
                Err(cause) => {
                    warn!(%cause, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            () = stop_wanted(&mut stopping) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    // Whoever has connected already, and may have sent something, is not cut off unheard.
    let last_ones = async {
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(connection(stream, router.clone(), stopping.clone()));
        }
    };
    let _ = tokio::time::timeout(LAST_CALL, last_ones).await;
    drop(listener);
    let farewell = async { while connections.join_next().await.is_some() {} };
    // Whatever is left then are streams without an end, such as watches.
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
}

async fn stop_wanted(stopping: &mut watch::Receiver<bool>) {
    // An error means that the server is gone altogether.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// A connection that came about at the last moment has not even said which protocol it speaks.
async fn last_call(stopping: &mut watch::Receiver<bool>) {
    stop_wanted(stopping).await;
    tokio::time::sleep(2 * LAST_CALL).await;
}

async fn connection(stream: TcpStream, router: Counted, mut stopping: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http2()
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    let network = &router.metrics.network;
    let (received, sent) = (network.client_received.clone(), network.client_sent.clone());
    let link = Link::default();
    let stream = Metered { stream, received, sent, link: link.clone() };
    let service =
        TowerToHyperService::new(router.map_request(move |mut request: http::Request<_>| {
            request.extensions_mut().insert(link.clone());
            request
        }));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = last_call(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(cause) = ended {
        debug!(%cause, "a client connection ended badly");
    }
}
