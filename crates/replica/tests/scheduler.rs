//! Whole clusters in virtual time. See `world/mod.rs`.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, dead_code)]

#[path = "scheduler/leases.rs"]
mod leases;
#[path = "scheduler/service.rs"]
mod service;
#[path = "scheduler/takeover.rs"]
mod takeover;
#[path = "scheduler/versions.rs"]
mod versions;
mod world;

use world::{Canary, World, faults::Fault, ms, scenario::Scenario};

const CALM: Scenario = Scenario {
    name: "calm",
    members: 3,
    faults: &[],
    rough_for: ms(3000),
    registers: 4,
    holders: 2,
    watchers: 2,
    movers: 0,
};

const ROUGH: Scenario =
    Scenario { name: "rough", faults: &Fault::ALL, rough_for: ms(8000), holders: 3, ..CALM };
const ROUGH1: Scenario = Scenario { name: "rough1", members: 1, ..ROUGH };
const ROUGH5: Scenario = Scenario { name: "rough5", members: 5, ..ROUGH };
const ROUGH7: Scenario = Scenario { name: "rough7", members: 7, ..ROUGH };
const CRASHES: Scenario = Scenario {
    name: "crashes",
    faults: &[Fault::Crash, Fault::CrashAll, Fault::SlowDisk, Fault::HandOver],
    ..ROUGH
};
const PARTITIONS: Scenario = Scenario {
    name: "partitions",
    faults: &[Fault::CutOneWay, Fault::CutPair, Fault::Isolate, Fault::Split, Fault::Reset],
    ..ROUGH
};
const BAD_NET: Scenario = Scenario {
    name: "bad_net",
    faults: &[Fault::Loss, Fault::Duplicates, Fault::Reordering, Fault::SlowNet, Fault::Reset],
    ..ROUGH
};
const DISKS: Scenario = Scenario {
    name: "disks",
    faults: &[Fault::SlowDisk, Fault::StalledDisk, Fault::Pause, Fault::Crash],
    ..ROUGH
};
const MOVES: Scenario = Scenario { name: "moves", faults: &[], movers: 1, ..ROUGH };
const ALL: [Scenario; 10] =
    [CALM, ROUGH, ROUGH1, ROUGH5, ROUGH7, CRASHES, PARTITIONS, BAD_NET, DISKS, MOVES];

#[test]
fn hunt() {
    let first: u64 = std::env::var("TENURE_SEED").map_or(1, |s| s.parse().unwrap());
    let count: u64 = std::env::var("TENURE_SEEDS").map_or(1, |s| s.parse().unwrap());
    let name = std::env::var("TENURE_SCENARIO").unwrap_or_default();
    let mut total = world::counts::Counts::default();
    for scenario in ALL.iter().filter(|s| name.is_empty() || s.name == name) {
        for seed in first..first + count {
            let result = std::panic::catch_unwind(|| scenario.run(seed, None));
            match result {
                Ok(world) => {
                    if let Some(text) = &world.trace.text {
                        std::fs::write("/tmp/trace.txt", text).unwrap();
                    }
                    total.add(&world.counts)
                }
                Err(_) => println!("FAILED {} {seed}", scenario.name),
            }
        }
    }
    println!("{total:?}");
}

/// The seeds of a test: so many as given, or as `TENURE_SEEDS` says.
pub fn seeds(usual: u64) -> impl Iterator<Item = u64> {
    let count = std::env::var("TENURE_SEEDS").ok().and_then(|count| count.parse().ok());
    1..=count.unwrap_or(usual)
}

pub fn quorum(members: u64) -> u64 {
    members / 2 + 1
}
