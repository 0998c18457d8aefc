//! One client's connection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tenure::tls::TlsAcceptor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::handler::Handler;
use super::socket::{Socket, SocketHandle};
use super::{ConnectionSlot, Worker};

/// How long a client may take for the head of a request, and keep an idle connection.
const HEAD_MAX: Duration = Duration::from_secs(60);
/// How long a handshake of TLS may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Serves a connection until either side ends it, or the proxy stops.
pub(super) async fn serve(
    worker: Arc<Worker>,
    stream: TcpStream,
    peer: SocketAddr,
    stop: watch::Receiver<bool>,
    slot: ConnectionSlot,
) {
    let address = HeaderValue::from_str(&peer.ip().to_canonical().to_string());
    let address = address.expect("an address has no characters that a header cannot have");
    let (socket, handle) = Socket::new(stream, Some(worker.proxy.timeouts.client));
    let Some(tls) = worker.proxy.tls.clone() else {
        return speak(worker, socket, handle, address, stop, slot).await;
    };
    let greeting = TlsAcceptor::from(tls.config()).accept(socket);
    // What fails here is the client's: it speaks no TLS, or shows no certificate that counts.
    if let Ok(Ok(secured)) = timeout(HANDSHAKE_MAX, greeting).await {
        speak(worker, secured, handle, address, stop, slot).await;
    }
}

async fn speak<S>(
    worker: Arc<Worker>,
    stream: S,
    handle: SocketHandle,
    address: HeaderValue,
    mut stop: watch::Receiver<bool>,
    slot: ConnectionSlot,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handler = Arc::new(Handler::new(worker, address, slot));
    let service = service_fn(move |request| {
        let handler = Arc::clone(&handler);
        async move { Ok::<_, Infallible>(handler.handle(request).await) }
    });
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
    // A client that has sent its last request and closed its side still gets the answer.
    builder.half_close(true);
    // One buffer for head and body: to copy a short body costs less than a vectored write.
    builder.writev(false);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let stopped = async {
        // An error means that the sender is gone: then the process ends, too.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    };
    // A body that failed must not look complete where the end of the connection is the end of the body.
    // Other errors are the client's: it broke off, or was told what is wrong with its request.
    if ended.is_err_and(|error| error.is_user()) {
        handle.reset_on_close();
    }
}
