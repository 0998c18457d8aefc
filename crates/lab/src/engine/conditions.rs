//! The conditions of the network at the moment, and of single links.

use std::time::Duration;

use crate::engine::{Dice, us};

/// Delays, loss, duplication and reordering in the whole network. Probabilities are per mille.
#[derive(Clone, Copy, Debug)]
pub struct NetworkConditions {
    pub delay_min: Duration,
    pub delay_max: Duration,
    pub loss: u64,
    pub duplicates: u64,
    pub reordered: u64,
}

impl Default for NetworkConditions {
    fn default() -> NetworkConditions {
        NetworkConditions {
            delay_min: us(50),
            delay_max: us(400),
            loss: 0,
            duplicates: 0,
            reordered: 0,
        }
    }
}

impl NetworkConditions {
    pub fn delay(&self, dice: &mut Dice) -> Duration {
        dice.duration(self.delay_min, self.delay_max)
    }

    /// These conditions on a link with its own: delays add up, and the larger of two probabilities counts.
    pub fn on(&self, link: &LinkConditions) -> NetworkConditions {
        NetworkConditions {
            delay_min: self.delay_min + link.delay.0,
            delay_max: self.delay_max + link.delay.1,
            loss: self.loss.max(link.loss),
            duplicates: self.duplicates.max(link.duplicates),
            reordered: self.reordered.max(link.reordered),
        }
    }
}

/// What one direction between two processes adds to the conditions of the whole network. Probabilities are per mille.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkConditions {
    /// The least and the most added delay.
    pub delay: (Duration, Duration),
    pub loss: u64,
    pub duplicates: u64,
    pub reordered: u64,
}
