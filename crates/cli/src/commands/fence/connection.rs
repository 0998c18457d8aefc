//! One client's connection, and each request on it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::answer::Failure;
use super::exchange::exchange;
use super::head;
use super::inside::Inside;
use super::lane::Lane;
use super::reply::Reply;
use super::{Alive, Worker};

/// How long a client may take for a request's head, and keep a connection that it does not use.
pub(super) const HEAD_MAX: Duration = Duration::from_secs(60);

/// Serves a connection until either side ends it, or we stop.
pub(super) async fn serve(
    worker: Arc<Worker>,
    stream: TcpStream,
    peer: SocketAddr,
    mut stop: watch::Receiver<bool>,
    alive: Alive,
) {
    let _ = stream.set_nodelay(true);
    let address = HeaderValue::from_str(&peer.ip().to_canonical().to_string());
    let address = address.expect("an address has no characters that a header cannot have");
    let Some(stream) = Lane::new(&worker, stream, &address).travel(&mut stop).await else { return };
    let client = Arc::new(Client { worker, address, alive });
    let service = service_fn(move |request| {
        let client = Arc::clone(&client);
        async move { Ok::<_, Infallible>(client.answer(request).await) }
    });
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    // A client that breaks off is nobody's error.
    let stopped = async {
        // Whoever would tell us to stop is gone: the process ends.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = stopped => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

struct Client {
    worker: Arc<Worker>,
    /// Where it is, as the upstream is told.
    address: HeaderValue,
    alive: Alive,
}

impl Client {
    async fn answer(&self, request: Request<Incoming>) -> Response<Reply> {
        let proxy = &self.worker.proxy;
        let (mut parts, body) = request.into_parts();
        if head::wants_upgrade(&parts.headers) || parts.method == Method::CONNECT {
            return self.failed(Failure::Upgrade);
        }
        let token = match proxy.door.token(&parts) {
            Ok(token) => token,
            Err(turned) => return self.turned_away(&turned),
        };
        let inside = match token {
            None => None,
            Some(token) => match proxy.door.enter(token, &parts).await {
                Ok(passage) => Some(Inside::new(passage, proxy, self.alive.clone())),
                Err(turned) => return self.turned_away(&turned),
            },
        };
        let ours =
            head::toward_upstream(&mut parts, &proxy.upstream, &self.address, proxy.rewrite_host);
        if ours.is_none() {
            // The upstream has seen nothing of it.
            inside.into_iter().for_each(Inside::leave);
            return self.failed(Failure::Target);
        }
        if inside.is_none() {
            proxy.metrics.passed();
        }
        let answered = exchange(&self.worker, parts, body, inside, self.alive.clone()).await;
        answered.unwrap_or_else(|failure| self.failed(failure))
    }

    fn turned_away(&self, turned: &super::door::Turned) -> Response<Reply> {
        let proxy = &self.worker.proxy;
        proxy.metrics.refused(turned.away.reason());
        proxy.talk.refused(turned, &proxy.door.rule.header);
        turned.response(&proxy.door.rule.header)
    }

    fn failed(&self, failure: Failure) -> Response<Reply> {
        let proxy = &self.worker.proxy;
        proxy.metrics.failed(failure.reason());
        proxy.talk.failed(&failure);
        failure.response()
    }
}
