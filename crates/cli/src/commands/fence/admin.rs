//! `/metrics` and `/healthz`, on an address of their own, so that they hide no path of the upstream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tenure_server::browsers::Browsers;
use tokio::net::TcpListener;

use super::Proxy;
use super::response_body::ResponseBody;

/// How long a client may take for the head of a request.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// How long to wait when a connection cannot be accepted, usually for want of file descriptors.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Serves until the process ends.
pub(super) async fn serve(listener: TcpListener, proxy: Arc<Proxy>) {
    let browsers = Arc::new(
        listener.local_addr().map_or_else(|_| Browsers::default(), |at| Browsers::at(at.ip())),
    );
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(RETRY_AFTER).await;
            continue;
        };
        let (proxy, browsers) = (Arc::clone(&proxy), Arc::clone(&browsers));
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let (parts, _) = request.into_parts();
                let response = match browsers.judge(&parts) {
                    Ok(_) => respond(parts.uri.path(), &proxy),
                    Err(refused) => said(refused.status(), "text/plain", format!("{refused}\n")),
                };
                async move { Ok::<_, Infallible>(response) }
            });
            let mut builder = Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
            // An error is the client's: it broke off, or sent no HTTP.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn respond(path: &str, proxy: &Proxy) -> Response<ResponseBody> {
    let gate = &proxy.admission.gate;
    let (status, kind, text) = match path {
        "/metrics" => {
            let page = proxy.metrics.page(gate);
            (StatusCode::OK, "text/plain; version=0.0.4", page)
        }
        "/healthz" => match gate.broken() {
            None => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
            Some(cause) => {
                let text = format!("the gate is closed for good, restart the proxy: {cause}\n");
                (StatusCode::SERVICE_UNAVAILABLE, "text/plain", text)
            }
        },
        _ => {
            let text = "not found: this address serves /metrics and /healthz\n".to_owned();
            (StatusCode::NOT_FOUND, "text/plain", text)
        }
    };
    said(status, kind, text)
}

fn said(status: StatusCode, kind: &'static str, text: String) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
