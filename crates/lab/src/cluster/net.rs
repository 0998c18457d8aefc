//! The network between members: links, and the connections that stand on them.

use std::collections::{BTreeMap, BTreeSet};

use tenure_replica::Moment;

use crate::{
    cluster::member::Number,
    engine::{Counts, Dice, Links},
};

#[derive(Debug, Default)]
pub struct Net {
    pub links: Links,
    /// Connections that stand, with the lives of both ends.
    connected: BTreeMap<(Number, Number), (u64, u64)>,
    /// Who believes to be connected with whom.
    believes: BTreeSet<(Number, Number)>,
}

fn pair(a: Number, b: Number) -> (Number, Number) {
    (a.min(b), a.max(b))
}

impl Net {
    /// When a message arrives: never, once, or twice.
    pub fn arrivals(
        &mut self,
        now: Moment,
        from: Number,
        to: Number,
        dice: &mut Dice,
        counts: &mut Counts,
    ) -> Vec<Moment> {
        if !self.is_connected(from, to) {
            return vec![];
        }
        self.links.arrivals(now, from, to, dice, counts)
    }

    /// Whether messages of these lives can pass.
    pub fn carries(&self, from: (Number, u64), to: (Number, u64)) -> bool {
        let lives = if from.0 < to.0 { (from.1, to.1) } else { (to.1, from.1) };
        self.connected.get(&pair(from.0, to.0)) == Some(&lives)
    }

    pub fn is_connected(&self, a: Number, b: Number) -> bool {
        self.connected.contains_key(&pair(a, b))
    }

    pub fn connect(&mut self, a: (Number, u64), b: (Number, u64)) {
        let lives = if a.0 < b.0 { (a.1, b.1) } else { (b.1, a.1) };
        self.connected.insert(pair(a.0, b.0), lives);
    }

    /// True if they were connected.
    pub fn disconnect(&mut self, a: Number, b: Number) -> bool {
        self.connected.remove(&pair(a, b)).is_some()
    }

    /// Notes that `observer` was told of a connection; true if it believed in one already.
    pub fn believe(&mut self, observer: Number, peer: Number) -> bool {
        !self.believes.insert((observer, peer))
    }

    pub fn disbelieve(&mut self, observer: Number, peer: Number) -> bool {
        self.believes.remove(&(observer, peer))
    }
}
