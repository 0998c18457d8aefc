//! `/metrics` and `/healthz`, on an address of their own: no path of the upstream is hidden by them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use super::Proxy;
use super::reply::Reply;

/// How long somebody may take to ask.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// How long to wait when there are no more file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers for as long as the process lives.
pub(super) async fn serve(listener: TcpListener, proxy: Arc<Proxy>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let proxy = Arc::clone(&proxy);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, &proxy);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut builder = Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
            // Whoever breaks off does not want to know.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn answer(request: &Request<Incoming>, proxy: &Proxy) -> Response<Reply> {
    let gate = &proxy.door.gate;
    let (status, kind, text) = match request.uri().path() {
        "/metrics" => {
            let page = proxy.metrics.page(gate);
            (StatusCode::OK, "text/plain; version=0.0.4", page)
        }
        "/healthz" => match gate.broken() {
            None => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
            Some(cause) => {
                let text = format!("the gate is closed for good, start anew: {cause}\n");
                (StatusCode::SERVICE_UNAVAILABLE, "text/plain", text)
            }
        },
        _ => {
            let text = "there are /metrics and /healthz\n".to_owned();
            (StatusCode::NOT_FOUND, "text/plain", text)
        }
    };
    let mut response = Response::new(Reply::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
