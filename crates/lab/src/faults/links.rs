//! What faults do to the network, on a stage and in a cluster.

use std::time::Duration;

use super::Action;
use crate::engine::{LinkConditions, Links, NetworkConditions, ProcessId};

/// Ends a change of the network's conditions.
pub type ClearNetwork = fn(&mut NetworkConditions);

/// Worsens the conditions, if the fault does that. Returns how to end it.
pub fn worsen(conditions: &mut NetworkConditions, action: &Action) -> Option<ClearNetwork> {
    match action {
        Action::Lose(share) => {
            conditions.loss = *share;
            Some(|conditions| conditions.loss = 0)
        }
        Action::Duplicate(share) => {
            conditions.duplicates = *share;
            Some(|conditions| conditions.duplicates = 0)
        }
        Action::Reorder(share) => {
            conditions.reordered = *share;
            Some(|conditions| conditions.reordered = 0)
        }
        Action::Delay(low, high) => {
            (conditions.delay_min, conditions.delay_max) = (*low, *high);
            Some(|conditions| {
                let fair = NetworkConditions::default();
                (conditions.delay_min, conditions.delay_max) = (fair.delay_min, fair.delay_max);
            })
        }
        _ => None,
    }
}

/// Ends a change of one link's conditions.
pub type ClearLink = fn(&mut LinkConditions);

/// Worsens the conditions on these links, if the fault does that. Returns how to end it on each of them.
pub fn worsen_links(
    links: &mut Links,
    which: &[(ProcessId, ProcessId)],
    action: &Action,
) -> Option<ClearLink> {
    let clears: ClearLink = match action {
        Action::LoseOn(..) => |link| link.loss = 0,
        Action::DuplicateOn(..) => |link| link.duplicates = 0,
        Action::ReorderOn(..) => |link| link.reordered = 0,
        Action::DelayOn(..) => |link| link.delay = Default::default(),
        _ => return None,
    };
    for (from, to) in which {
        let link = links.own(*from, *to);
        match action {
            Action::LoseOn(_, _, share) => link.loss = *share,
            Action::DuplicateOn(_, _, share) => link.duplicates = *share,
            Action::ReorderOn(_, _, share) => link.reordered = *share,
            Action::DelayOn(_, _, by) => link.delay = *by,
            _ => {}
        }
    }
    Some(clears)
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
pub fn across(groups: &[Vec<ProcessId>]) -> Vec<(ProcessId, ProcessId)> {
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
        let slow = worsen_links(&mut links, &[(1, 2)], &delay).expect("it changes links");
        for _ in 0..100 {
            let there = links.delay(1, 2, &mut dice);
            assert!(there >= ms(40) && there <= ms(61), "{there:?}");
            assert!(links.delay(2, 1, &mut dice) < ms(1));
        }
        let lossy = worsen_links(&mut links, &[(1, 2)], &lose).expect("it changes links");
        let mut arrive = |links: &mut Links, from, to| {
            links.arrivals(Moment::ZERO, from, to, &mut dice, &mut counts).len()
        };
        assert_eq!((arrive(&mut links, 1, 2), arrive(&mut links, 2, 1)), (0, 1));
        lossy(links.own(1, 2));
        assert_eq!(arrive(&mut links, 1, 2), 1);
        slow(links.own(1, 2));
        assert_eq!(counts.of("link_loss"), 1);
        assert!(links.delay(1, 2, &mut Dice::new(2)) < ms(1));
        assert!(worsen_links(&mut links, &[(1, 2)], &Action::Heal).is_none());
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
