//! The links between processes, one in each direction between any two, and the conditions on them.
//!
//! A link is a TCP connection: messages arrive in order and once. Loss, duplication and reordering are
//! faults, which can be switched on. Neither side is told that a link is cut.

use std::{collections::BTreeMap, time::Duration};

use tenure_replica::Moment;

use super::{Dice, RunCounts, us};

/// The number of a process.
pub type ProcessId = u64;

#[derive(Debug, Default)]
pub struct Links {
    pub conditions: NetworkConditions,
    /// What single links add to the conditions.
    own: BTreeMap<(ProcessId, ProcessId), NetworkConditions>,
    /// The distance between two processes, whatever the conditions.
    distances: BTreeMap<(ProcessId, ProcessId), (Duration, Duration)>,
    /// Cut directions, each with the number of faults that cut it.
    cut: BTreeMap<(ProcessId, ProcessId), u32>,
    /// When the last message on each link arrives.
    last_arrival: BTreeMap<(ProcessId, ProcessId), Moment>,
}

impl Links {
    /// When a message arrives: never, once, or twice.
    pub fn arrivals(
        &mut self,
        now: Moment,
        from: ProcessId,
        to: ProcessId,
        dice: &mut Dice,
        counts: &mut RunCounts,
    ) -> Vec<Moment> {
        if self.is_cut(from, to) {
            return vec![];
        }
        let conditions = self.conditions_of(from, to);
        if dice.chance(conditions.loss) {
            counts.count(if conditions.loss > self.conditions.loss { "link_loss" } else { "loss" });
            return vec![];
        }
        let mut arrivals = vec![self.arrival(now, from, to, dice, counts)];
        if dice.chance(conditions.duplicates) {
            let of_link = conditions.duplicates > self.conditions.duplicates;
            counts.count(if of_link { "link_duplicate" } else { "duplicate" });
            arrivals.push(self.arrival(now, from, to, dice, counts));
        }
        arrivals
    }

    /// When something that cannot be lost arrives.
    pub fn arrival(
        &mut self,
        now: Moment,
        from: ProcessId,
        to: ProcessId,
        dice: &mut Dice,
        counts: &mut RunCounts,
    ) -> Moment {
        let conditions = self.conditions_of(from, to);
        let delay = conditions.delay(dice);
        let last = self.last_arrival.entry((from, to)).or_default();
        let mut arrival = now + delay;
        if arrival < *last {
            if dice.chance(conditions.reordered) {
                let of_link = conditions.reordered > self.conditions.reordered;
                counts.count(if of_link { "link_reorder" } else { "reorder" });
            } else {
                arrival = *last;
            }
        }
        *last = (*last).max(arrival);
        arrival
    }

    /// The delay of something that keeps no order with other messages.
    pub fn delay(&self, from: ProcessId, to: ProcessId, dice: &mut Dice) -> Duration {
        self.conditions_of(from, to).delay(dice)
    }

    /// The conditions on one link.
    pub fn conditions_of(&self, from: ProcessId, to: ProcessId) -> NetworkConditions {
        let mut conditions = self.conditions;
        if let Some((low, high)) = self.distances.get(&(from, to)) {
            conditions.delay.0 += *low;
            conditions.delay.1 += *high;
        }
        self.own.get(&(from, to)).map_or(conditions, |own| conditions.on(own))
    }

    /// What one link adds to the conditions.
    pub fn own(&mut self, from: ProcessId, to: ProcessId) -> &mut NetworkConditions {
        self.own.entry((from, to)).or_insert(NetworkConditions::NONE)
    }

    /// Sets the permanent distance from one process to another.
    pub fn set_distance(&mut self, from: ProcessId, to: ProcessId, takes: (Duration, Duration)) {
        self.distances.insert((from, to), takes);
    }

    pub fn is_cut(&self, from: ProcessId, to: ProcessId) -> bool {
        self.cut.contains_key(&(from, to))
    }

    pub fn cut(&mut self, from: ProcessId, to: ProcessId) {
        *self.cut.entry((from, to)).or_default() += 1;
    }

    pub fn mend(&mut self, from: ProcessId, to: ProcessId) {
        if let Some(count) = self.cut.get_mut(&(from, to)) {
            *count -= 1;
            if *count == 0 {
                self.cut.remove(&(from, to));
            }
        }
    }

    /// Ends all faults that cut this link.
    pub fn mend_link(&mut self, from: ProcessId, to: ProcessId) {
        self.cut.remove(&(from, to));
    }

    pub fn mend_all(&mut self) {
        self.cut.clear();
    }

    /// Resets all conditions. Distances stay.
    pub fn clear_conditions(&mut self) {
        self.conditions = NetworkConditions::default();
        self.own.clear();
    }
}

/// Delays, loss, duplication and reordering in the whole network. Probabilities are per mille.
#[derive(Clone, Copy, Debug)]
pub struct NetworkConditions {
    /// The least and the most.
    pub delay: (Duration, Duration),
    pub loss: u64,
    pub duplicates: u64,
    pub reordered: u64,
}

impl Default for NetworkConditions {
    fn default() -> NetworkConditions {
        NetworkConditions { delay: (us(50), us(400)), ..NetworkConditions::NONE }
    }
}

impl NetworkConditions {
    /// What a link adds to the conditions that has none of its own.
    pub const NONE: NetworkConditions =
        NetworkConditions { delay: (us(0), us(0)), loss: 0, duplicates: 0, reordered: 0 };

    pub fn delay(&self, dice: &mut Dice) -> Duration {
        dice.duration(self.delay.0, self.delay.1)
    }

    /// These conditions on a link with its own: delays add up, and the larger of two probabilities counts.
    pub fn on(&self, link: &NetworkConditions) -> NetworkConditions {
        NetworkConditions {
            delay: (self.delay.0 + link.delay.0, self.delay.1 + link.delay.1),
            loss: self.loss.max(link.loss),
            duplicates: self.duplicates.max(link.duplicates),
            reordered: self.reordered.max(link.reordered),
        }
    }
}
