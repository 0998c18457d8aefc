//! Partitions of every shape, lost packets, slow lines.

use super::{Fault, LONG, SHORT};
use crate::torture::{Chance, Ground};

/// How often a member comes and goes.
const FLAPS: usize = 6;
/// The most packets of a hundred that are lost.
const LOST_MAX: usize = 8;

/// The member to cut off: more often than not the raft leader, because that is worse.
async fn victim(ground: &Ground, chance: &mut Chance) -> usize {
    let leader = ground.leader().await.filter(|_| chance.percent(60));
    leader.unwrap_or_else(|| chance.below(ground.count()))
}

fn isolate(ground: &Ground, alone: usize) {
    for other in (0..ground.count()).filter(|other| *other != alone) {
        ground.wiring.cut(alone, other);
    }
}

/// Breaks something, and leaves it broken.
pub(super) async fn begin(fault: Fault, ground: &Ground, chance: &mut Chance) {
    let (count, wiring) = (ground.count(), &ground.wiring);
    let one = victim(ground, chance).await;
    let other = (one + 1 + chance.below(count - 1)) % count;
    match fault {
        Fault::Split => {
            let mut order: Vec<usize> = (0..count).filter(|at| *at != one).collect();
            chance.shuffle(&mut order);
            // The victim is in the smaller half.
            let minority = (count - 1) / 2 - 1;
            let (with, against) = order.split_at(minority);
            for a in with.iter().chain([&one]) {
                against.iter().for_each(|b| wiring.cut(*a, *b));
            }
        }
        // It is heard and hears nothing, or hears and is not heard, by one or by all.
        Fault::OneWay => {
            let heard = chance.percent(50);
            let whom: Vec<usize> = if chance.percent(50) {
                vec![other]
            } else {
                (0..count).filter(|at| *at != one).collect()
            };
            for at in whom {
                let (from, to) = if heard { (at, one) } else { (one, at) };
                wiring.cut_one_way(from, to);
            }
        }
        Fault::Bridge => wiring.cut(one, other),
        Fault::Loss => wiring.lose(1 + chance.below(LOST_MAX)),
        Fault::Slow => {
            wiring.slow(one);
            wiring.slow(other);
        }
        _ => isolate(ground, one),
    }
}

pub(super) async fn flap(ground: &mut Ground, chance: &mut Chance) -> bool {
    let one = victim(ground, chance).await;
    for _ in 0..FLAPS {
        isolate(ground, one);
        tokio::time::sleep(chance.between(SHORT / 4, LONG / 3)).await;
        ground.wiring.heal();
        tokio::time::sleep(chance.between(SHORT / 4, LONG / 3)).await;
    }
    true
}
