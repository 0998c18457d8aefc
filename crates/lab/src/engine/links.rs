//! The links between processes: one in each direction between any two.
//!
//! A link is a TCP connection: what arrives, arrives in order and once. That it can lose, repeat and
//! reorder all the same are faults, to be switched on. A link that is cut says nothing: neither side
//! learns of it.

use std::collections::BTreeMap;

use tenure_replica::Moment;

use super::{Counts, Dice, Weather};

/// A process, by its number.
pub type End = u64;

#[derive(Debug, Default)]
pub struct Links {
    pub weather: Weather,
    /// Cut directions, with how many faults cut them.
    cut: BTreeMap<(End, End), u32>,
    /// When the last thing sent on a link arrives.
    last_arrival: BTreeMap<(End, End), Moment>,
}

impl Links {
    /// When a message arrives: never, once, or twice.
    pub fn arrivals(
        &mut self,
        now: Moment,
        from: End,
        to: End,
        dice: &mut Dice,
        counts: &mut Counts,
    ) -> Vec<Moment> {
        if self.is_cut(from, to) {
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
        from: End,
        to: End,
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

    pub fn is_cut(&self, from: End, to: End) -> bool {
        self.cut.contains_key(&(from, to))
    }

    pub fn cut(&mut self, from: End, to: End) {
        *self.cut.entry((from, to)).or_default() += 1;
    }

    pub fn mend(&mut self, from: End, to: End) {
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
}
