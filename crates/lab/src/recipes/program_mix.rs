//! The programs of a scenario.

use std::time::Duration;

use tenure_replica::Moment;

use super::{
    script::{LockKind, ProgramScript, RANKED, candidate, elector, locker, observer},
    simulation::Simulation,
};
use tenure_replica::canary;

use crate::engine::{Dice, ms};

/// How many programs of each kind, and whether faults hit them.
#[derive(Clone, Copy, Debug)]
pub struct ProgramMix {
    /// Whether programs are paused, killed and cut off, too.
    pub rough: bool,
    pub candidates: usize,
    /// Candidates with fast release: their sessions end with their connections.
    pub swift: usize,
    /// Candidates of different priority, without overlap, in an election with an administrator.
    pub ranked: usize,
    pub electors: usize,
    pub lockers: usize,
    pub readers_and_writers: usize,
    pub semaphores: usize,
    pub multis: usize,
    /// Observers of each of two elections, one of them with priorities.
    pub observers: usize,
}

/// Permits of the semaphore.
const PERMITS: u32 = 2;

impl ProgramMix {
    /// Some of every kind.
    pub const ALL: ProgramMix = ProgramMix {
        rough: false,
        candidates: 3,
        swift: 2,
        ranked: 3,
        electors: 2,
        lockers: 3,
        readers_and_writers: 4,
        semaphores: 4,
        multis: 3,
        observers: 1,
    };

    /// All programs, each with a clock and a TTL of its own.
    pub fn simulation(&self, now: Moment, dice: &mut Dice) -> Simulation {
        let mut simulation = Simulation::new(self.rough);
        if self.ranked > 0 {
            simulation.admin_from(now + ms(1200));
        }
        let mut add = |count: usize, script: &dyn Fn(Duration) -> ProgramScript| {
            for _ in 0..count {
                let begins = now + dice.duration(ms(400), ms(900));
                let slow = canary!(SlowPrograms);
                let ppm = if slow { -500_000 } else { dice.below(401) as i64 - 200 };
                let ttl = dice.duration(ms(400), ms(2000));
                simulation.add_program(begins, ppm, script(ttl));
            }
        };
        add(self.observers, &|_| observer("crown"));
        add(self.observers, &|_| observer(RANKED));
        add(self.candidates, &|ttl| candidate("crown", ttl, false));
        add(self.swift, &|ttl| candidate("swift", ttl, true));
        add(self.ranked, &|ttl| candidate(RANKED, ttl, false));
        add(self.electors, &|ttl| elector("office", ttl.max(ms(900))));
        add(self.lockers, &|ttl| locker("lock", LockKind::Lock, ttl));
        add(self.readers_and_writers, &|ttl| locker("book", LockKind::Rw, ttl));
        add(self.semaphores, &|ttl| locker("seats", LockKind::Semaphore(PERMITS), ttl));
        add(self.multis, &|ttl| locker("many", LockKind::Multi, ttl));
        simulation
    }
}
