//! The network: one link in each direction between any two members.
//!
//! A link is a TCP connection: what arrives, arrives in order and once. That it can lose, repeat and
//! reorder all the same are faults, to be switched on. A link that is cut says nothing: neither side
//! learns of it.

use std::collections::{BTreeMap, BTreeSet};

use tenure_replica::Moment;

use crate::{
    cluster::member::Number,
    engine::{Counts, Dice, Weather},
};

#[derive(Debug, Default)]
pub struct Net {
    pub weather: Weather,
    /// Cut directions, with how many faults cut them.
    cut: BTreeMap<(Number, Number), u32>,
    /// When the last thing sent on a link arrives.
    last_arrival: BTreeMap<(Number, Number), Moment>,
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
        if self.is_cut(from, to) || !self.connected.contains_key(&pair(from, to)) {
            return vec![];
        }
        if dice.chance(self.weather.loss) {
            counts.count("loss");
            return vec![];
        }
        let mut arrivals = vec![self.arrival(now, from, to, dice, counts)];
        if dice.chance(self.weather.duplicates) {
            counts.count("duplicate");
            arrivals.push(self.arrival(now, from, to, dice, counts));
        }
        arrivals
    }

    /// When something that cannot get lost arrives.
    pub fn arrival(
        &mut self,
        now: Moment,
        from: Number,
        to: Number,
        dice: &mut Dice,
        counts: &mut Counts,
    ) -> Moment {
        let delay = self.weather.delay(dice);
        let last = self.last_arrival.entry((from, to)).or_default();
        let mut arrival = now + delay;
        if arrival < *last {
            if dice.chance(self.weather.reordered) {
                counts.count("reorder");
            } else {
                arrival = *last;
            }
        }
        *last = (*last).max(arrival);
        arrival
    }

    pub fn is_cut(&self, from: Number, to: Number) -> bool {
        self.cut.contains_key(&(from, to))
    }

    pub fn cut(&mut self, from: Number, to: Number) {
        *self.cut.entry((from, to)).or_default() += 1;
    }

    pub fn mend(&mut self, from: Number, to: Number) {
        if let Some(count) = self.cut.get_mut(&(from, to)) {
            *count -= 1;
            if *count == 0 {
                self.cut.remove(&(from, to));
            }
        }
    }

    pub fn mend_all(&mut self) {
        self.cut.clear();
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
