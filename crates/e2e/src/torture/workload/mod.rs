//! What clients do meanwhile, each kind in a file of its own, and what each must find in the end.

mod holders;
mod leases;
mod registers;
mod watchers;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{Chance, Ground, history::History};
use crate::{Load, Record};

use holders::Holders;
use leases::Leases;
use registers::Registers;
use watchers::Watchers;

/// Writers of keys that are written once.
const WRITERS: usize = 2;

/// Everybody who uses the cluster.
pub struct Workload {
    stop: Stop,
    registers: Registers,
    holders: Holders,
    leases: Leases,
    watchers: Watchers,
    load: Load,
}

/// Says when to stop.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn told(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// One thing that was judged.
#[derive(Clone, Debug)]
pub struct Check {
    /// What must hold.
    pub name: &'static str,
    /// What it was held against: so many of what.
    pub against: Vec<(String, usize)>,
    /// What was wrong.
    pub wrong: Vec<String>,
}

impl Check {
    pub(super) fn new(name: &'static str, against: &[(&str, usize)], wrong: Vec<String>) -> Check {
        let against = against.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect();
        Check { name, against, wrong }
    }
}

impl Workload {
    /// Sets everybody to work; `pause` is what those at the registers leave between two operations.
    pub fn start(ground: &mut Ground, chance: &mut Chance, pause: Duration) -> Workload {
        let stop = Stop::default();
        let watchers = Watchers::start(ground);
        ground.watched = watchers.progress();
        let writers = (0..WRITERS).map(|_| ground.any()).collect();
        Workload {
            registers: Registers::start(ground, chance, pause, &stop),
            holders: Holders::start(ground, chance, &stop),
            leases: Leases::start(ground, &stop),
            load: Load::start("load", writers),
            watchers,
            stop,
        }
    }

    /// What was done to the registers so far.
    pub fn history(&self) -> &History {
        self.registers.history()
    }

    /// Ends all work on a cluster where everything is mended, and judges it.
    pub async fn stop(self, ground: &mut Ground) -> Vec<Check> {
        self.stop.now();
        let record = self.load.stop().await;
        let registers = self.registers.stop(ground).await;
        let holders = self.holders.stop().await;
        let leases = self.leases.stop().await;
        let told = self.watchers.stop(ground).await;
        let mut checks = vec![registers.linearizable()];
        checks.push(acknowledged(&record, ground).await);
        checks.push(told.whole(ground, &registers).await);
        checks.extend(holders.judge(&told));
        checks.push(leases.judge(&holders));
        checks
    }
}

/// Every key that was acknowledged is there once, and none that was refused.
async fn acknowledged(record: &Record, ground: &Ground) -> Check {
    let wrong = record.wrong(&ground.cluster.client(), "load").await;
    let against = [
        ("acknowledged", record.acknowledged.len()),
        ("unknown", record.unknown.len()),
        ("refused", record.refused.len()),
    ];
    Check::new("acknowledged writes are there", &against, wrong)
}
