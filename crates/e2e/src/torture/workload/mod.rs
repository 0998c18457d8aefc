//! What clients do meanwhile, each kind in a file of its own, and what each must find in the end.

mod appends;
mod holders;
mod leases;
mod past;
mod registers;
mod watchers;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{
    Chance, Ground,
    history::History,
    truth::{Answers, judge, judge::PastRead},
};
use crate::{Load, Record, eventually_within, pb};

use appends::Appends;
use holders::Holders;
use leases::{Kept, Leases};
use past::Past;
use registers::{Registered, Registers};
use watchers::Watchers;

/// Writers of keys that are written once.
const WRITERS: usize = 2;

/// How long the last answers may take to be in the logs, as committed.
const LOGGED_WITHIN: Duration = Duration::from_secs(60);

/// All clients of the cluster.
pub struct Workload {
    stop: Stop,
    registers: Registers,
    appends: Appends,
    past: Past,
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
    /// Starts all clients; `pause` is what those at the registers leave between two operations.
    pub fn start(ground: &mut Ground, chance: &mut Chance, pause: Duration) -> Workload {
        let stop = Stop::default();
        let watchers = Watchers::start(ground);
        ground.watched = watchers.progress();
        let writers = (0..WRITERS).map(|_| ground.any()).collect();
        let registers = Registers::start(ground, chance, pause, &stop);
        Workload {
            past: Past::start(ground, registers.shared(), chance, &stop),
            registers,
            appends: Appends::start(ground, chance, 2 * pause, &stop),
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
        let past = self.past.stop().await;
        let appends = self.appends.stop(ground).await;
        let told = self.watchers.stop(ground).await;
        let mut checks = vec![registers.linearizable(), appends];
        checks.push(as_logged(&registers, &record, &leases, past, ground).await);
        checks.push(acknowledged(&record, ground).await);
        checks.push(told.whole(ground, &registers).await);
        checks.extend(holders.judge(&told));
        checks.push(leases.judge(&holders));
        checks
    }
}

/// Every answer is what the members' own logs say.
async fn as_logged(
    registers: &Registered,
    record: &Record,
    leases: &Kept,
    past: Vec<PastRead>,
    ground: &Ground,
) -> Check {
    let history = registers.history();
    let mut answers = Answers {
        registers: history.registers(),
        refused: history.refused(),
        leases: leases.told.clone(),
        past,
        ..Answers::default()
    };
    answers.add_load(record);
    // Members write down that an entry is committed together with what follows it.
    let client = ground.any();
    let mut last = 0;
    eventually_within(LOGGED_WITHIN, "the logs have every answer", async || {
        let put = pb::PutRequest { key: "logged".into(), ..Default::default() };
        let answer = client.kv().put(put).await.map_err(|error| error.to_string())?;
        let revision = answer.header.map_or(0, |header| header.revision);
        last = if last == 0 { revision } else { last };
        let read = ground.witness.revision() >= last;
        if read { Ok(()) } else { Err(format!("{last}: {}", ground.witness.progress())) }
    })
    .await;
    let (log, compared) = ground.witness.log();
    let mut done = judge(&log, &answers);
    done.wrong.truncate(10);
    let against = [
        ("entries", log.entries),
        ("compared between members", compared),
        ("commands", log.commands),
        ("reads", done.reads),
        ("writes", done.writes),
        ("refusals", done.refusals),
        ("unknown and done", done.unknown.0),
        ("unknown and not done", done.unknown.1),
        ("of leases", done.leases),
        ("reads of the past", done.past.0),
        ("of those compacted", done.past.1),
    ];
    Check::new("every answer is what the logs say", &against, done.wrong)
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
