//! What blows do to the network, whatever world it belongs to.

use std::time::Duration;

use super::Action;
use crate::engine::{End, Links, Weather};

/// How bad weather ends.
pub type Clears = fn(&mut Weather);

/// Spoils the weather, if the blow is of that kind. Answers how it ends.
pub fn spoil(weather: &mut Weather, action: &Action) -> Option<Clears> {
    match action {
        Action::Lose(share) => {
            weather.loss = *share;
            Some(|weather| weather.loss = 0)
        }
        Action::Duplicate(share) => {
            weather.duplicates = *share;
            Some(|weather| weather.duplicates = 0)
        }
        Action::Reorder(share) => {
            weather.reordered = *share;
            Some(|weather| weather.reordered = 0)
        }
        Action::Delay(low, high) => {
            (weather.delay_min, weather.delay_max) = (*low, *high);
            Some(|weather| {
                let fair = Weather::default();
                (weather.delay_min, weather.delay_max) = (fair.delay_min, fair.delay_max);
            })
        }
        _ => None,
    }
}

/// The links from each of these to each of those, and back if both ways.
pub fn between(ones: &[End], others: &[End], both: bool) -> Vec<(End, End)> {
    let pairs = ones.iter().flat_map(|one| others.iter().map(move |other| (*one, *other)));
    let pairs = pairs.filter(|(one, other)| one != other);
    pairs.flat_map(|(a, b)| if both { vec![(a, b), (b, a)] } else { vec![(a, b)] }).collect()
}

/// The links between groups, both ways.
pub fn across(groups: &[Vec<End>]) -> Vec<(End, End)> {
    let mut links = vec![];
    for (at, group) in groups.iter().enumerate() {
        for other in &groups[at + 1..] {
            links.extend(between(group, other, true));
        }
    }
    links
}

/// A link that comes and goes.
#[derive(Clone, Copy, Debug)]
pub struct Flapping {
    pub ends: (End, End),
    /// What it does next.
    pub cuts: bool,
    /// How often it changes.
    pub every: Duration,
    pub left: Duration,
}

impl Flapping {
    /// Cuts or mends. Answers what comes after `every`, if anything does.
    pub fn turn(mut self, links: &mut Links) -> Option<Flapping> {
        let (a, b) = self.ends;
        for (from, to) in [(a, b), (b, a)] {
            if self.cuts {
                links.cut(from, to);
            } else {
                links.mend(from, to);
            }
        }
        self.left = self.left.saturating_sub(self.every);
        let goes_on = self.cuts || !self.left.is_zero();
        self.cuts = !self.cuts;
        goes_on.then_some(self)
    }
}
