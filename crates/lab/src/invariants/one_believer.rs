//! Of those who want no overlap, at most one believes that it leads; and whoever has stopped believing
//! without knowing it, by its token is refused: guarded writes come with tokens that only grow.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_api::Revision;
use tenure_replica::Moment;

use super::must;
use crate::{cluster::truth::Truth, engine::Counts};

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
        counts: &mut Counts,
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

    /// It may believe for longer.
    pub fn until(&mut self, name: &Bytes, client: usize, until: Moment) {
        if let Some((_, believed)) = self.believers.get_mut(&(name.clone(), client)) {
            *believed = until.max(*believed);
        }
    }

    /// It stops.
    pub fn stops(&mut self, name: &Bytes, client: usize) {
        self.believers.remove(&(name.clone(), client));
    }

    /// All guarded writes that were ever taken, in order.
    pub fn judge_writes(&self, name: &Bytes, truth: &Truth, counts: &mut Counts) {
        let key = [b"guarded/", &name[..]].concat();
        let mut last = 0;
        for change in &truth.changes {
            for event in change.events.iter().filter(|event| event.kv.key == key) {
                let token: i64 = String::from_utf8_lossy(&event.kv.value).parse().unwrap_or(0);
                must!(token >= last, "a write with token {token} was taken after one with {last}");
                last = token;
                counts.count(NAME);
            }
        }
    }
}
