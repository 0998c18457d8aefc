//! Stories of programs that use the recipes, from the start of the cluster to its rest.

use std::time::Duration;

use tenure_replica::Moment;

use super::{
    script::{Canary, Kind, THRONE, candidate, elector, locker, observer},
    town::Town,
};
use crate::{
    cluster::{World, faults::Fault},
    engine::{Dice, ms},
};

/// Who lives in a town, and what happens there.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub members: u64,
    pub faults: &'static [Fault],
    /// Things happen to programs, too.
    pub rough_programs: bool,
    pub rough_for: Duration,
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
    pub observers: usize,
}

/// Permits of the semaphore.
const PERMITS: u32 = 2;
/// From the moment everything is well, the cluster serves within this time.
const SERVES_AFTER: Duration = ms(3000);

/// Prints how to see a failure again.
struct Replay(&'static str, u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Replay(name, seed) = self;
            eprintln!(
                "replay with: TENURE_SCENARIO={name} TENURE_SEED={seed} TENURE_TRACE=1 cargo nextest \
                 run -p tenure-lab --test recipes replay --no-capture"
            );
        }
    }
}

impl Scenario {
    pub fn run(&self, seed: u64, canary: Option<Canary>) -> World {
        let _replay = Replay(self.name, seed);
        let mut world = World::new(seed, self.members);
        self.play(&mut world, seed, canary);
        world
    }

    pub fn play(&self, world: &mut World, seed: u64, canary: Option<Canary>) {
        // Programs proclaim what they like, more than once.
        world.invariants.written_once.values_repeat = true;
        world.start_all();
        world.add_client_after(ms(400), self.town(seed, canary));
        world.must_lead_within(ms(1500));
        world.run(ms(600));
        world.trouble(self.faults);
        world.run(self.rough_for);
        world.heal();
        world.must_serve_within(SERVES_AFTER);
        world.come_to_rest();
    }

    /// Everybody, each with a clock and a time to live of its own.
    pub fn town(&self, seed: u64, canary: Option<Canary>) -> Town {
        let mut dice = Dice::new(seed ^ 0x70_61_6e);
        let mut town = Town::new(self.rough_programs);
        town.canary = canary;
        if self.nobles > 0 {
            town.rule_from(Moment::ZERO + ms(1200));
        }
        town.judge_writes_of(THRONE);
        town.judge_writes_of("crown");
        town.judge_writes_of("swift");
        town.judge_writes_of("lock");
        let mut settle = |count: usize, script: &dyn Fn(Duration) -> super::script::Script| {
            for _ in 0..count {
                let begins = Moment::ZERO + dice.duration(ms(400), ms(900));
                let slow = canary == Some(Canary::SlowClock);
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
