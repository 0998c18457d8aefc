//! How well the network does at the moment.

use std::time::Duration;

use crate::engine::{Dice, us};

/// Chances are per mille.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    pub delay_min: Duration,
    pub delay_max: Duration,
    pub loss: u64,
    pub duplicates: u64,
    pub reordered: u64,
}

impl Default for Weather {
    fn default() -> Weather {
        Weather { delay_min: us(50), delay_max: us(400), loss: 0, duplicates: 0, reordered: 0 }
    }
}

impl Weather {
    pub fn delay(&self, dice: &mut Dice) -> Duration {
        dice.duration(self.delay_min, self.delay_max)
    }
}
