//! The gate as a tower layer.
//!
//! The service finds the [`FencingToken`](crate::fence::FencingToken) and the [`Passage`] among the request's extensions. The passage
//! ends when the service's future ends, finished or dropped. A handler that goes on writing after its
//! answer, or on another task, takes the passage there from the extensions.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::request::Parts;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::{TokenRule, TurnedAway};
use crate::fence::{Gate, Pass, Passage};

type Naming = dyn Fn(&Parts) -> String + Send + Sync;

/// Puts a [`Gate`] in front of a service.
///
/// ```
/// use axum::{Extension, Router, routing::post};
/// use tenure::fence::{FencingToken, Gate, GateLimits, http::FenceLayer};
///
/// async fn write(Extension(token): Extension<FencingToken>) -> String {
///     format!("written under {token}")
/// }
///
/// let gate = Gate::in_memory(GateLimits::default());
/// let app: Router = Router::new().route("/orders", post(write)).layer(FenceLayer::new(gate));
/// ```
#[derive(Clone)]
pub struct FenceLayer {
    gate: Gate,
    rule: TokenRule,
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
    /// never forgotten. Clients choose paths; check that the name is one of yours, or a client can fill the gate with
    /// others.
    pub fn naming(
        gate: Gate,
        naming: impl Fn(&Parts) -> String + Send + Sync + 'static,
    ) -> FenceLayer {
        FenceLayer { gate, rule: TokenRule::default(), naming: Arc::new(naming) }
    }

    /// The same with another header, or with tokens for reads as well.
    #[must_use]
    pub fn rule(self, rule: TokenRule) -> FenceLayer {
        FenceLayer { rule, ..self }
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
                Err(turned_away) => {
                    let in_force = fence.gate.in_force(&(fence.naming)(&parts));
                    Ok(turned_away.response(&fence.rule.header, in_force))
                }
            }
        })
    }
}

impl FenceLayer {
    async fn admit(&self, parts: &Parts) -> Result<Option<Passage>, TurnedAway> {
        let Some(token) = self.rule.token(&parts.method, &parts.headers)? else { return Ok(None) };
        let resource = (self.naming)(parts);
        let passage = self.gate.enter(Pass::to(&resource, token)).await;
        passage.map(Some).map_err(TurnedAway::Refused)
    }
}
