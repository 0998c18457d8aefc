//! Every tenure of a name has a higher token than all before it, and a client is told the token of its own tenure.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_api::Revision;

use super::must;
use crate::engine::RunCounts;

pub const NAME: &str = "tokens_grow";

#[derive(Default)]
pub struct TokensGrow {
    begun: BTreeMap<Bytes, Revision>,
    /// The newest token that a client was told, and that client.
    told: BTreeMap<Bytes, (Revision, usize)>,
}

impl TokensGrow {
    /// A tenure began, according to the log.
    pub fn began(&mut self, name: &Bytes, token: Revision, counts: &mut RunCounts) {
        counts.count(NAME);
        let before = self.begun.insert(name.clone(), token);
        must!(before < Some(token), "{name:?} was led with {before:?}, and now with {token}");
    }

    /// A client was told that it leads with this token.
    pub fn told(&mut self, name: &Bytes, client: usize, token: Revision) {
        let newest = self.told.entry(name.clone()).or_insert((token, client));
        let again = *newest == (token, client);
        must!(
            token > newest.0 || again,
            "c{client} was told token {token} of {name:?}, after c{} was told {}",
            newest.1,
            newest.0
        );
        *newest = (token, client);
    }
}
