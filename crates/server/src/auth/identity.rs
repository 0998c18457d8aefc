//! Which user is behind a request.
//!
//! A token comes first: the metadata `token`, or else `authorization`, with or without `Bearer`. Then the name in the client's
//! certificate, if `--client-cert-auth` makes names of it and the request came as gRPC over that connection. What is found
//! here is what the client has shown; whether it matters, the core judges.

use std::time::Instant;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use tenure_api::{Principal, Proof};
use tenure_replica::{Consistency, LogIndex, Operation, Read};

use super::{
    TokenKind,
    tokens::{Lookup, SimpleTokens},
};
use crate::{
    admission::{Admitted, Connection},
    node::NodeHandle,
};

/// Marks a request that came as JSON: certificates name no user there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromGateway;

/// Finds out who asks.
#[derive(Clone, Debug)]
pub(crate) struct Identities {
    node: NodeHandle,
    kind: TokenKind,
}

/// The principal of a request.
pub(crate) enum Identity {
    /// It is known.
    Known(Principal),
    /// It will be, when this member knows what the others know.
    Waits(BoxFuture<'static, Principal>),
}

impl Identities {
    pub(crate) fn new(node: NodeHandle, kind: TokenKind) -> Identities {
        Identities { node, kind }
    }

    /// The principal of a request with these headers, over this connection.
    pub(crate) fn identify(
        &self,
        headers: &HeaderMap,
        connection: Option<&Connection>,
        is_from_gateway: bool,
    ) -> Identity {
        let tokens = &self.node.tokens;
        let Some(token) = shown(headers) else {
            let named = connection.filter(|_| !is_from_gateway);
            let name = named.and_then(Connection::certificate_user);
            return Identity::Known(match name {
                Some(name) => held(name.into(), tokens.revision()),
                None => Principal::Anonymous,
            });
        };
        let Some(token) = token else { return Identity::Known(Principal::Unproven) };
        match &self.kind {
            TokenKind::Nothing => Identity::Known(Principal::Unproven),
            TokenKind::Jwt(jwt) => Identity::Known(jwt.principal(token, tokens.revision())),
            TokenKind::Simple => match tokens.look_up(token, Instant::now()) {
                Lookup::Known(user, since) => Identity::Known(held(user, since)),
                Lookup::Malformed => Identity::Known(Principal::Unproven),
                Lookup::At(index)
                    if index <= self.node.status().applied || !tokens.is_enabled() =>
                {
                    // A status may be a moment old, so what is applied may be more; it is never less.
                    Identity::Known(look_up(tokens, token))
                }
                Lookup::At(index) => {
                    let (node, token) = (self.node.clone(), token.to_owned());
                    Identity::Waits(Box::pin(async move {
                        catch_up(&node, index).await;
                        look_up(&node.tokens, &token)
                    }))
                }
            },
        }
    }
}

/// A token from another member, whose entry is not applied here yet: this member catches up with what is committed now. A
/// token that was made up waits for that, too, and not for ever.
async fn catch_up(node: &NodeHandle, index: LogIndex) {
    let by = Admitted::in_process(Principal::System);
    let read = Operation::Read(Read::Freshness, Consistency::Linearizable);
    if node.status().committed < index || node.status().applied < index {
        let _ = node.ask(&by, read).await;
    }
}

fn look_up(tokens: &SimpleTokens, token: &str) -> Principal {
    match tokens.look_up(token, Instant::now()) {
        Lookup::Known(user, since) => held(user, since),
        Lookup::At(_) | Lookup::Malformed => Principal::Unproven,
    }
}

fn held(name: std::sync::Arc<str>, auth_revision: u64) -> Principal {
    Principal::User { name, auth_revision, proof: Proof::Held }
}

/// The token that a client shows; none in it if it is empty or no text.
fn shown(headers: &HeaderMap) -> Option<Option<&str>> {
    let value = headers.get("token").or_else(|| headers.get("authorization"))?;
    let text = value.to_str().ok();
    let token = text.map(|text| text.strip_prefix("Bearer ").unwrap_or(text));
    Some(token.filter(|token| !token.is_empty()))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn identity_takes_the_token_first_and_cuts_bearer_once() {
        assert_eq!(shown(&headers(&[])), None);
        assert_eq!(shown(&headers(&[("token", "")])), Some(None));
        assert_eq!(shown(&headers(&[("authorization", "T")])), Some(Some("T")));
        assert_eq!(shown(&headers(&[("authorization", "Bearer T")])), Some(Some("T")));
        assert_eq!(shown(&headers(&[("token", "Bearer Bearer T")])), Some(Some("Bearer T")));
        let both = headers(&[("authorization", "T"), ("token", "x")]);
        assert_eq!(shown(&both), Some(Some("x")));
    }
}
