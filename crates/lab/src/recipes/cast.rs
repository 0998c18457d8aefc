//! Who lives in a town.

use std::time::Duration;

use tenure_replica::Moment;

use super::{
    script::{Kind, Script, THRONE, candidate, elector, locker, observer},
    town::Town,
};
use crate::{
    cluster::Canary,
    engine::{Dice, ms},
};

/// How many of each kind, and what may happen to them.
#[derive(Clone, Copy, Debug)]
pub struct Cast {
    /// Programs are stopped, killed and cut off, too.
    pub rough: bool,
    pub candidates: usize,
    /// Candidates whose sessions end with their connections.
    pub swift: usize,
    /// Candidates of different rank, who want no overlap, under somebody who rules.
    pub nobles: usize,
    pub electors: usize,
    pub lockers: usize,
    pub readers_and_writers: usize,
    pub semaphores: usize,
    pub multis: usize,
    /// Of each of the two elections with and without rank.
    pub observers: usize,
}

/// Permits of the semaphore.
const PERMITS: u32 = 2;

impl Cast {
    /// Some of every kind.
    pub const ALL: Cast = Cast {
        rough: false,
        candidates: 3,
        swift: 2,
        nobles: 3,
        electors: 2,
        lockers: 3,
        readers_and_writers: 4,
        semaphores: 4,
        multis: 3,
        observers: 1,
    };

    /// Everybody, each with a clock and a time to live of its own.
    pub fn town(&self, now: Moment, canary: Option<Canary>, dice: &mut Dice) -> Town {
        let mut town = Town::new(self.rough);
        if self.nobles > 0 {
            town.rule_from(now + ms(1200));
        }
        let mut settle = |count: usize, script: &dyn Fn(Duration) -> Script| {
            for _ in 0..count {
                let begins = now + dice.duration(ms(400), ms(900));
                let slow = canary == Some(Canary::SlowPrograms);
                let ppm = if slow { -500_000 } else { dice.below(401) as i64 - 200 };
                let ttl = dice.duration(ms(400), ms(2000));
                town.settle(begins, ppm, script(ttl));
            }
        };
        settle(self.observers, &|_| observer("crown"));
        settle(self.observers, &|_| observer(THRONE));
        settle(self.candidates, &|ttl| candidate("crown", ttl, false));
        settle(self.swift, &|ttl| candidate("swift", ttl, true));
        settle(self.nobles, &|ttl| candidate(THRONE, ttl, false));
        settle(self.electors, &|ttl| elector("office", ttl.max(ms(900))));
        settle(self.lockers, &|ttl| locker("lock", Kind::Lock, ttl));
        settle(self.readers_and_writers, &|ttl| locker("book", Kind::Rw, ttl));
        settle(self.semaphores, &|ttl| locker("seats", Kind::Semaphore(PERMITS), ttl));
        settle(self.multis, &|ttl| locker("many", Kind::Multi, ttl));
        town
    }
}
