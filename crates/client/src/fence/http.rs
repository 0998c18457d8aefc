//! The gate in front of an HTTP service: a tower layer. Needs the feature `tower`.
//!
//! A holder sends its token in the header `Fencing-Token`, with reads as well as with writes. The
//! first request of a new holder so raises the gate before anything is read for it.
//!
//! | request | answer |
//! |---|---|
//! | token in force or newer | the service's, who finds the [`FencingToken`] and the [`Passage`] among the request's extensions |
//! | token older than the one in force | 409, with the token in force in the body and in `Fencing-Token` |
//! | no token, method GET, HEAD, OPTIONS or TRACE | the service's |
//! | no token, any other method | 428 |
//! | a header that is no token, or two of them | 400 |
//! | a newer token, while older requests do not end | 503 with `Retry-After` |
//! | any, when the gate is full or broken | 503 |
//!
//! The passage ends when the service's future ends, finished or dropped. A handler that goes on writing
//! after its answer, or on another task, takes the passage there from the extensions.
//!
//! ```
//! use axum::{Extension, Router, routing::post};
//! use tenure::fence::{FencingToken, Gate, Limits, http::FenceLayer};
//!
//! async fn write(Extension(token): Extension<FencingToken>) -> String {
//!     format!("written under {token}")
//! }
//!
//! let gate = Gate::in_memory(Limits::default());
//! let app: Router = Router::new().route("/orders", post(write)).layer(FenceLayer::new(gate));
//! ```

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use tower_layer::Layer;
use tower_service::Service;

use super::{FencingToken, Gate, Pass, Passage, Refusal};

/// The header, as `http` wants to have it.
const HEADER: HeaderName = HeaderName::from_static("fencing-token");
/// When to ask again after older requests did not end in time.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

type Naming = dyn Fn(&Parts) -> String + Send + Sync;

/// Puts a [`Gate`] in front of a service.
#[derive(Clone)]
pub struct FenceLayer {
    gate: Gate,
    naming: Arc<Naming>,
}

impl FenceLayer {
    /// One gate for the whole service, which stands for one resource.
    pub fn new(gate: Gate) -> FenceLayer {
        FenceLayer::naming(gate, |_| String::new())
    }

    /// One gate for several resources: `naming` says which of them a request is about.
    ///
    /// Name what one holder holds, as a shard, and not what a request touches, as a row: names are
    /// never forgotten. Clients choose paths; check that the name is one of yours, or somebody fills
    /// the gate with others.
    pub fn naming(
        gate: Gate,
        naming: impl Fn(&Parts) -> String + Send + Sync + 'static,
    ) -> FenceLayer {
        FenceLayer { gate, naming: Arc::new(naming) }
    }
}

impl fmt::Debug for FenceLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceLayer").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = Fenced<S>;

    fn layer(&self, service: S) -> Fenced<S> {
        Fenced { fence: self.clone(), service }
    }
}

/// A service behind a gate.
#[derive(Clone, Debug)]
pub struct Fenced<S> {
    fence: FenceLayer,
    service: S,
}

impl<S, Asked, Answered> Service<Request<Asked>> for Fenced<S>
where
    S: Service<Request<Asked>, Response = Response<Answered>> + Clone + Send + 'static,
    S::Future: Send,
    Asked: Send + 'static,
    Answered: From<String> + Send + 'static,
{
    type Response = Response<Answered>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answered>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Asked>) -> Self::Future {
        // The service that is ready is the one to call; a clone takes its place.
        let clone = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, clone);
        let fence = self.fence.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            match fence.admit(&parts).await {
                Ok(None) => service.call(Request::from_parts(parts, body)).await,
                Ok(Some(passage)) => {
                    let passage = Arc::new(passage);
                    parts.extensions.insert(passage.token());
                    parts.extensions.insert(Arc::clone(&passage));
                    let answer = service.call(Request::from_parts(parts, body)).await;
                    drop(passage);
                    answer
                }
                Err(turned_away) => Ok(turned_away.response()),
            }
        })
    }
}

impl FenceLayer {
    async fn admit(&self, parts: &Parts) -> Result<Option<Passage>, TurnedAway> {
        let Some(token) = token_of(&parts.headers)? else {
            return if only_reads(&parts.method) { Ok(None) } else { Err(TurnedAway::NoToken) };
        };
        let resource = (self.naming)(parts);
        let passage = self.gate.enter(Pass::to(&resource, token)).await;
        passage.map(Some).map_err(TurnedAway::Refused)
    }
}

fn token_of(headers: &HeaderMap) -> Result<Option<FencingToken>, TurnedAway> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(TurnedAway::NoSuchToken("more than one Fencing-Token".to_owned()));
    }
    let text = value.to_str().unwrap_or_default();
    text.parse()
        .map(Some)
        .map_err(|error: super::NotAToken| TurnedAway::NoSuchToken(error.to_string()))
}

/// RFC 9110, 9.2.1. A service that writes on GET is beyond help.
fn only_reads(method: &Method) -> bool {
    method.is_safe()
}

enum TurnedAway {
    NoToken,
    NoSuchToken(String),
    Refused(Refusal),
}

impl TurnedAway {
    fn response<Body: From<String>>(self) -> Response<Body> {
        let (status, fields, in_force) = match &self {
            TurnedAway::NoToken => {
                let error = "a write needs the header Fencing-Token";
                (StatusCode::PRECONDITION_REQUIRED, json(error, &[]), None)
            }
            TurnedAway::NoSuchToken(error) => (StatusCode::BAD_REQUEST, json(error, &[]), None),
            TurnedAway::Refused(refusal @ Refusal::Stale { token, in_force }) => {
                let tokens = [("token", *token), ("in_force", *in_force)];
                (StatusCode::CONFLICT, json(&refusal.to_string(), &tokens), Some(*in_force))
            }
            TurnedAway::Refused(refusal) => {
                (StatusCode::SERVICE_UNAVAILABLE, json(&refusal.to_string(), &[]), None)
            }
        };
        let mut response = Response::new(Body::from(fields));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(in_force) = in_force {
            headers.insert(HEADER, HeaderValue::from(in_force.get()));
        }
        if let TurnedAway::Refused(Refusal::NotYet { .. }) = self {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

/// A JSON object with one text and some tokens, which need no escaping.
fn json(error: &str, tokens: &[(&str, FencingToken)]) -> String {
    use std::fmt::Write;
    let mut text = String::from("{\"error\":\"");
    for character in error.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(text, "\\u{:04x}", control as u32);
            }
            plain => text.push(plain),
        }
    }
    text.push('"');
    for (name, token) in tokens {
        let _ = write!(text, ",\"{name}\":{token}");
    }
    text.push('}');
    text
}
