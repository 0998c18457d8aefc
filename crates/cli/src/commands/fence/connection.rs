//! One client's connection, and each request on it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::EXPECT;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::answer::Failure;
use super::exchange::exchange;
use super::head;
use super::inside::Inside;
use super::lane::Lane;
use super::patient::Patient;
use super::reply::Reply;
use super::{Stay, Worker};

/// How long a client may take for a request's head, and keep a connection that it does not use.
pub(super) const HEAD_MAX: Duration = Duration::from_secs(60);
/// How much of an unwanted body is read, and for how long.
const DISCARD_BYTES_MAX: usize = 64 << 20;
const DISCARD_MAX: Duration = Duration::from_secs(10);

/// Serves a connection until either side ends it, or we stop.
pub(super) async fn serve(
    worker: Arc<Worker>,
    stream: TcpStream,
    peer: SocketAddr,
    mut stop: watch::Receiver<bool>,
    stay: Stay,
) {
    let _ = stream.set_nodelay(true);
    let address = HeaderValue::from_str(&peer.ip().to_canonical().to_string());
    let address = address.expect("an address has no characters that a header cannot have");
    let Some(stream) = Lane::new(&worker, stream, &address).travel(&mut stop).await else { return };
    let stream = Patient::new(stream, worker.proxy.waits.client);
    let client = Arc::new(Client { worker, address, stay });
    let service = service_fn(move |request| {
        let client = Arc::clone(&client);
        async move { Ok::<_, Infallible>(client.answer(request).await) }
    });
    let mut builder = Builder::new();
    // Who has nothing more to say may still listen.
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX).half_close(true);
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
    stay: Stay,
}

impl Client {
    async fn answer(&self, request: Request<Incoming>) -> Response<Reply> {
        let proxy = &self.worker.proxy;
        let (mut parts, body) = request.into_parts();
        if let Some(failure) = unsound(&parts) {
            discard(&parts, body);
            return self.failed(failure);
        }
        let token = match proxy.door.token(&parts) {
            Ok(token) => token,
            Err(turned) => {
                discard(&parts, body);
                return self.turned_away(&turned);
            }
        };
        let inside = match token {
            None => None,
            Some(token) => match proxy.door.enter(token, &parts).await {
                Ok(passage) => Some(Inside::new(passage, proxy, self.stay.alive.clone())),
                Err(turned) => {
                    discard(&parts, body);
                    return self.turned_away(&turned);
                }
            },
        };
        let ours =
            head::toward_upstream(&mut parts, &proxy.upstream, &self.address, proxy.rewrite_host);
        if ours.is_none() {
            // The upstream has seen nothing of it.
            inside.into_iter().for_each(Inside::leave);
            return self.failed(Failure::Target);
        }
        if !body.is_end_stream() {
            head::in_chunks(&mut parts);
        }
        if inside.is_none() {
            proxy.metrics.passed();
        }
        let answered = exchange(&self.worker, parts, body, inside, self.stay.clone()).await;
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
        proxy.failed(&failure);
        failure.response()
    }
}

/// What is wrong with a request that nobody may send.
fn unsound(parts: &Parts) -> Option<Failure> {
    if head::wants_upgrade(&parts.headers) || parts.method == Method::CONNECT {
        Some(Failure::Upgrade)
    } else if !head::is_plainly_addressed(parts) {
        Some(Failure::Target)
    } else if !head::is_plainly_coded(&parts.headers) {
        Some(Failure::Coding)
    } else {
        None
    }
}

/// Reads what is not wanted, within limits. Many clients send everything before they listen, and one
/// whose connection is closed meanwhile sees a broken pipe instead of our answer.
fn discard(parts: &Parts, mut body: Incoming) {
    // Who asks first is told without having sent anything.
    if body.is_end_stream() || parts.headers.contains_key(EXPECT) {
        return;
    }
    tokio::spawn(timeout(DISCARD_MAX, async move {
        let mut left = DISCARD_BYTES_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, |data| data.len());
            let Some(rest) = left.checked_sub(bytes) else { break };
            left = rest;
        }
    }));
}
