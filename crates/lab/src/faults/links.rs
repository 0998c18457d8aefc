//! What faults do to the network, on a stage and in a cluster.

use std::time::Duration;

use super::LinkFault;
use crate::engine::{Links, NetworkConditions, ProcessId};

/// Worsens conditions by a fault.
pub(super) fn worsen(conditions: &mut NetworkConditions, fault: LinkFault) {
    match fault {
        LinkFault::Lose(share) => conditions.loss = share,
        LinkFault::Duplicate(share) => conditions.duplicates = share,
        LinkFault::Reorder(share) => conditions.reordered = share,
        LinkFault::Delay(low, high) => conditions.delay = (low, high),
    }
}

/// Ends a fault: what it worsened is as usual again.
pub(super) fn ease(conditions: &mut NetworkConditions, fault: LinkFault, usual: NetworkConditions) {
    match fault {
        LinkFault::Lose(_) => conditions.loss = usual.loss,
        LinkFault::Duplicate(_) => conditions.duplicates = usual.duplicates,
        LinkFault::Reorder(_) => conditions.reordered = usual.reordered,
        LinkFault::Delay(..) => conditions.delay = usual.delay,
    }
}

/// The links from each of `ones` to each of `others`, and back if `both`.
pub fn between(
    ones: &[ProcessId],
    others: &[ProcessId],
    both: bool,
) -> Vec<(ProcessId, ProcessId)> {
    let pairs = ones.iter().flat_map(|one| others.iter().map(move |other| (*one, *other)));
    let pairs = pairs.filter(|(one, other)| one != other);
    pairs.flat_map(|(a, b)| if both { vec![(a, b), (b, a)] } else { vec![(a, b)] }).collect()
}

/// The links between groups, in both directions.
pub(super) fn across(groups: &[Vec<ProcessId>]) -> Vec<(ProcessId, ProcessId)> {
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
    pub ends: (ProcessId, ProcessId),
    /// Whether the next turn cuts the link.
    pub cuts: bool,
    /// The time between turns.
    pub every: Duration,
    pub left: Duration,
}

impl Flapping {
    /// Cuts or mends the link. Returns the next turn, which is due after `every`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Dice, RunCounts, ms};
    use tenure_replica::Moment;

    #[test]
    fn link_conditions_change_one_direction_and_end() {
        let (mut links, mut dice, mut counts) =
            (Links::default(), Dice::new(1), RunCounts::default());
        let (delay, lose) = (LinkFault::Delay(ms(40), ms(60)), LinkFault::Lose(1000));
        worsen(links.own(1, 2), delay);
        for _ in 0..100 {
            let there = links.delay(1, 2, &mut dice);
            assert!(there >= ms(40) && there <= ms(61), "{there:?}");
            assert!(links.delay(2, 1, &mut dice) < ms(1));
        }
        worsen(links.own(1, 2), lose);
        let mut arrive = |links: &mut Links, from, to| {
            links.arrivals(Moment::ZERO, from, to, &mut dice, &mut counts).len()
        };
        assert_eq!((arrive(&mut links, 1, 2), arrive(&mut links, 2, 1)), (0, 1));
        ease(links.own(1, 2), lose, NetworkConditions::NONE);
        assert_eq!(arrive(&mut links, 1, 2), 1);
        ease(links.own(1, 2), delay, NetworkConditions::NONE);
        assert_eq!(counts.of("link_loss"), 1);
        assert!(links.delay(1, 2, &mut Dice::new(2)) < ms(1));
    }

    #[test]
    fn link_distance_outlasts_link_conditions() {
        let mut links = Links::default();
        links.set_distance(1, 2, (ms(20), ms(20)));
        links.own(1, 2).delay = (ms(50), ms(50));
        assert!(links.delay(1, 2, &mut Dice::new(1)) >= ms(70));
        links.clear_conditions();
        let takes = links.delay(1, 2, &mut Dice::new(1));
        assert!(takes >= ms(20) && takes < ms(21), "{takes:?}");
    }
}
