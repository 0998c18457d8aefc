//! Of candidates without overlap, at most one believes to lead.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_api::Revision;
use tenure_replica::Moment;

use super::must;
use crate::engine::RunCounts;

pub const NAME: &str = "one_believer";

#[derive(Default)]
pub struct OneBeliever {
    believers: BTreeMap<(Bytes, usize), (Revision, Moment)>,
}

impl OneBeliever {
    /// A client was told that it leads.
    pub fn believes(
        &mut self,
        name: &Bytes,
        client: usize,
        token: Revision,
        (now, until): (Moment, Moment),
        counts: &mut RunCounts,
    ) {
        counts.count(NAME);
        for ((of, other), (theirs, believed)) in &self.believers {
            must!(
                of != name || *other == client || *believed <= now,
                "c{client} leads {name:?} with token {token} at {:?}, and c{other} believes in its \
                 token {theirs} until {:?}",
                now.since_start(),
                believed.since_start()
            );
            must!(
                of != name || *theirs <= token,
                "c{client} leads {name:?} with token {token}, after c{other} with {theirs}"
            );
        }
        self.believers.insert((name.clone(), client), (token, until));
    }

    /// A renewal has moved its deadline.
    pub fn until(&mut self, name: &Bytes, client: usize, until: Moment) {
        if let Some((_, believed)) = self.believers.get_mut(&(name.clone(), client)) {
            *believed = until.max(*believed);
        }
    }

    /// It does not believe any more.
    pub fn stops(&mut self, name: &Bytes, client: usize) {
        self.believers.remove(&(name.clone(), client));
    }
}
