//! What faults do to the network, on a stage and in a cluster.

use std::time::Duration;

use super::Action;
use crate::engine::{LinkConditions, Links, NetworkConditions, ProcessId};

/// Worsens the conditions of the whole network by a fault, or ends that.
pub(super) fn set_conditions(conditions: &mut NetworkConditions, action: &Action, is_on: bool) {
    let share = |share: &u64| if is_on { *share } else { 0 };
    match action {
        Action::Lose(of) => conditions.loss = share(of),
        Action::Duplicate(of) => conditions.duplicates = share(of),
        Action::Reorder(of) => conditions.reordered = share(of),
        Action::Delay(low, high) => {
            let fair = NetworkConditions::default();
            (conditions.delay_min, conditions.delay_max) =
                if is_on { (*low, *high) } else { (fair.delay_min, fair.delay_max) };
        }
        _ => {}
    }
}

/// Worsens the conditions of one link by a fault, or ends that.
pub(super) fn set_link_conditions(link: &mut LinkConditions, action: &Action, is_on: bool) {
    let share = |share: &u64| if is_on { *share } else { 0 };
    match action {
        Action::LoseOn(_, _, of) => link.loss = share(of),
        Action::DuplicateOn(_, _, of) => link.duplicates = share(of),
        Action::ReorderOn(_, _, of) => link.reordered = share(of),
        Action::DelayOn(_, _, by) => link.delay = if is_on { *by } else { Default::default() },
        _ => {}
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
    use crate::{
        engine::{Dice, RunCounts, ms},
        faults::Target,
    };
    use tenure_replica::Moment;

    fn named(name: &str) -> Target {
        Target::Named(name.into())
    }

    #[test]
    fn link_conditions_change_one_direction_and_end() {
        let (mut links, mut dice, mut counts) =
            (Links::default(), Dice::new(1), RunCounts::default());
        let delay = Action::DelayOn(named("a"), named("b"), (ms(40), ms(60)));
        let lose = Action::LoseOn(named("a"), named("b"), 1000);
        set_link_conditions(links.own(1, 2), &delay, true);
        for _ in 0..100 {
            let there = links.delay(1, 2, &mut dice);
            assert!(there >= ms(40) && there <= ms(61), "{there:?}");
            assert!(links.delay(2, 1, &mut dice) < ms(1));
        }
        set_link_conditions(links.own(1, 2), &lose, true);
        let mut arrive = |links: &mut Links, from, to| {
            links.arrivals(Moment::ZERO, from, to, &mut dice, &mut counts).len()
        };
        assert_eq!((arrive(&mut links, 1, 2), arrive(&mut links, 2, 1)), (0, 1));
        set_link_conditions(links.own(1, 2), &lose, false);
        assert_eq!(arrive(&mut links, 1, 2), 1);
        set_link_conditions(links.own(1, 2), &delay, false);
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
