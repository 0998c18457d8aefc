//! Who may come in: token, resource, whether the token can be, and the gate.

use http::request::Parts;
use http::{HeaderName, Response};
use tenure::fence::http::{TokenRule, TurnedAway};
use tenure::fence::{FencingToken, Gate, Horizon, Pass, Passage};

use super::reply::Reply;
use super::resource::Naming;

/// What is asked of every request.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) gate: Gate,
    pub(super) rule: TokenRule,
    pub(super) naming: Naming,
    /// Nobody to ask, if every token is to be believed.
    pub(super) horizon: Option<Horizon>,
}

/// Somebody who does not come in.
#[derive(Debug)]
pub(super) struct Turned {
    pub(super) away: TurnedAway,
    pub(super) resource: String,
    in_force: Option<FencingToken>,
}

impl Turned {
    /// The whole answer.
    pub(super) fn response(&self, header: &HeaderName) -> Response<Reply> {
        self.away.response(header, self.in_force)
    }
}

impl Door {
    /// The token of a request; none if it may come without.
    pub(super) fn token(&self, parts: &Parts) -> Result<Option<FencingToken>, Box<Turned>> {
        let token = self.rule.token(&parts.method, &parts.headers);
        token.map_err(|away| {
            let resource = self.naming.resource(&parts.uri, &parts.headers).unwrap_or_default();
            self.turn_away(away, resource)
        })
    }

    /// Comes in with a token.
    pub(super) async fn enter(
        &self,
        token: FencingToken,
        parts: &Parts,
    ) -> Result<Passage, Box<Turned>> {
        let named = self.naming.resource(&parts.uri, &parts.headers);
        let resource = named.map_err(|away| self.turn_away(away, String::new()))?;
        let entered = match self.believe(token, &resource).await {
            Ok(()) => {
                let passage = self.gate.enter(Pass::to(&resource, token)).await;
                passage.map_err(TurnedAway::Refused)
            }
            Err(away) => Err(away),
        };
        entered.map_err(|away| self.turn_away(away, resource))
    }

    /// Whether the token can have been given. One that raises nothing needs no belief: the gate alone
    /// decides, so that who holds goes on while the cluster is away.
    async fn believe(&self, token: FencingToken, resource: &str) -> Result<(), TurnedAway> {
        let Some(horizon) = &self.horizon else { return Ok(()) };
        if token.get() <= horizon.known() || Some(token) <= self.gate.in_force(resource) {
            return Ok(());
        }
        horizon.vouch(token).await.map_err(TurnedAway::Doubted)
    }

    fn turn_away(&self, away: TurnedAway, resource: String) -> Box<Turned> {
        let in_force = self.gate.in_force(&resource);
        Box::new(Turned { away, resource, in_force })
    }
}
