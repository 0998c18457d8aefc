//! Each request of a client: checked, admitted, and sent on.

use std::sync::Arc;
use std::time::Duration;

use http::header::EXPECT;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::admission::Rejection;
use super::exchange::Exchange;
use super::failure::Failure;
use super::headers;
use super::passage::HeldPassage;
use super::request_body::RequestBody;
use super::response_body::ResponseBody;
use super::{ConnectionSlot, Worker};

/// How much of the body of a refused request is read, and for how long.
const DISCARD_BYTES_MAX: usize = 64 << 20;
const DISCARD_MAX: Duration = Duration::from_secs(10);

/// Handles the requests of one client's connection.
pub(super) struct Handler {
    worker: Arc<Worker>,
    /// The client's address, for `X-Forwarded-For`.
    client: HeaderValue,
    slot: ConnectionSlot,
}

impl Handler {
    pub(super) fn new(worker: Arc<Worker>, client: HeaderValue, slot: ConnectionSlot) -> Handler {
        Handler { worker, client, slot }
    }

    /// The response to a request: the upstream's, or why there is none.
    pub(super) async fn handle(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let proxy = &self.worker.proxy;
        let (mut parts, body) = request.into_parts();
        if let Some(failure) = unsupported(&parts) {
            discard(&parts, body);
            return self.failed(failure);
        }
        let passage = match proxy.admission.token(&parts) {
            Ok(None) => None,
            Ok(Some(token)) => match proxy.admission.admit(token, &parts).await {
                Ok(passage) => Some(HeldPassage::new(passage, proxy, self.slot.working.clone())),
                Err(rejection) => {
                    discard(&parts, body);
                    return self.refused(&rejection);
                }
            },
            Err(rejection) => {
                discard(&parts, body);
                return self.refused(&rejection);
            }
        };
        let origin = headers::Origin { client: &self.client, secure: proxy.tls.is_some() };
        let judged = proxy.admission.judged_by();
        let rewritten =
            headers::to_upstream(&mut parts, &proxy.upstream, &origin, &judged, proxy.rewrite_host);
        if rewritten.is_none() {
            // The upstream has seen nothing of it.
            passage.into_iter().for_each(HeldPassage::release);
            return self.failed(Failure::Target);
        }
        if !body.is_end_stream() {
            headers::set_chunked(&mut parts);
        }
        let only_reads = parts.method.is_safe();
        let (body, upload) = RequestBody::new(body, proxy.timeouts.client);
        let request = Request::from_parts(parts, body);
        let exchange = Exchange::new(&self.worker, upload, only_reads);
        let answered = match passage {
            Some(passage) => exchange.fenced(request, passage, self.slot.clone()).await,
            None => {
                proxy.metrics.passed();
                exchange.pass(request).await
            }
        };
        answered.unwrap_or_else(|failure| self.failed(failure))
    }

    fn refused(&self, rejection: &Rejection) -> Response<ResponseBody> {
        let proxy = &self.worker.proxy;
        proxy.metrics.refused(rejection.cause.reason());
        proxy.log.refused(rejection, &proxy.admission.rule.header);
        rejection.response(&proxy.admission.rule.header)
    }

    fn failed(&self, failure: Failure) -> Response<ResponseBody> {
        self.worker.proxy.failed(&failure);
        failure.response()
    }
}

/// Why a request cannot be sent on, whatever its token.
fn unsupported(parts: &Parts) -> Option<Failure> {
    if headers::wants_upgrade(&parts.headers) || parts.method == Method::CONNECT {
        Some(Failure::Upgrade)
    } else if !headers::is_plainly_addressed(parts) {
        Some(Failure::Target)
    } else if !headers::is_plainly_coded(&parts.headers) {
        Some(Failure::Coding)
    } else {
        None
    }
}

/// Reads the body of a refused request, within limits. Many clients send everything before they read, and
/// one whose connection is closed meanwhile sees a broken pipe instead of the refusal.
fn discard(parts: &Parts, mut body: Incoming) {
    // A client that expects 100 sees the refusal before it has sent anything.
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
