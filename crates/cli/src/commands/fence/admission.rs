//! Which requests are admitted: token, resource, whether the cluster can have given the token, and the gate.

use http::request::Parts;
use http::{HeaderName, Response};
use tenure::fence::http::{TokenRule, TurnedAway};
use tenure::fence::{FencingToken, Gate, Horizon, Pass, Passage};

use super::resource::{ResourceNaming, ResourceRule};
use super::response_body::ResponseBody;

/// What stands for the resource's name in `--election`.
pub(super) const RESOURCE: &str = "{resource}";

/// What every request is checked against.
#[derive(Debug)]
pub(super) struct AdmissionPolicy {
    pub(super) gate: Gate,
    pub(super) rule: TokenRule,
    pub(super) resources: ResourceRule,
    /// None if every token is to be believed.
    pub(super) horizon: Option<Horizon>,
    /// Only tokens of the holders of this election raise the gate; `{resource}` stands for the resource's name.
    pub(super) election: Option<String>,
    /// Whether refusals tell the token in force and the cluster's revision.
    pub(super) tells_tokens: bool,
}

/// A request that is not admitted.
#[derive(Debug)]
pub(super) struct Rejection {
    pub(super) cause: TurnedAway,
    pub(super) resource: String,
    /// None if the client is not told.
    in_force: Option<FencingToken>,
    tells_tokens: bool,
}

impl Rejection {
    /// The response to the client.
    pub(super) fn response(&self, header: &HeaderName) -> Response<ResponseBody> {
        match self.tells_tokens {
            true => self.cause.response(header, self.in_force),
            false => self.cause.terse_response(header),
        }
    }
}

impl AdmissionPolicy {
    /// The token of a request; none if it needs none.
    pub(super) fn token(&self, parts: &Parts) -> Result<Option<FencingToken>, Box<Rejection>> {
        let token = self.rule.token(&parts.method, &parts.headers);
        token.map_err(|cause| {
            let resource = self.resources.name(&parts.uri, &parts.headers).unwrap_or_default();
            self.reject(cause, resource)
        })
    }

    /// Passes the gate with a token, or waits at it for older passages to end.
    pub(super) async fn admit(
        &self,
        token: FencingToken,
        parts: &Parts,
    ) -> Result<Passage, Box<Rejection>> {
        let named = self.resources.name(&parts.uri, &parts.headers);
        let resource = named.map_err(|cause| self.reject(cause, String::new()))?;
        let admitted = match self.check_given(token, &resource).await {
            Ok(()) => {
                let passage = self.gate.enter(Pass::to(&resource, token)).await;
                passage.map_err(TurnedAway::Refused)
            }
            Err(cause) => Err(cause),
        };
        admitted.map_err(|cause| self.reject(cause, resource))
    }

    /// Checks that the cluster can have given the token. A token that does not raise the gate needs no
    /// such check: the gate alone decides, so a holder goes on while the cluster is away.
    async fn check_given(&self, token: FencingToken, resource: &str) -> Result<(), TurnedAway> {
        let Some(horizon) = &self.horizon else { return Ok(()) };
        if Some(token) <= self.gate.in_force(resource) {
            return Ok(());
        }
        let vouched = match &self.election {
            Some(election) => {
                let election = election.replace(RESOURCE, resource);
                horizon.vouch_for_holder(&election, token).await
            }
            None if token.get() <= horizon.known() => Ok(()),
            None => horizon.vouch(token).await,
        };
        vouched.map_err(TurnedAway::Doubted)
    }

    /// The headers that a request is judged by.
    pub(super) fn judged_by(&self) -> Vec<&HeaderName> {
        let named = match &self.resources.naming {
            ResourceNaming::Header(name) => Some(name),
            ResourceNaming::Single | ResourceNaming::Path(_) => None,
        };
        std::iter::once(&self.rule.header).chain(named).collect()
    }

    fn reject(&self, cause: TurnedAway, resource: String) -> Box<Rejection> {
        let in_force = self.gate.in_force(&resource).filter(|_| self.tells_tokens);
        Box::new(Rejection { cause, resource, in_force, tells_tokens: self.tells_tokens })
    }
}
