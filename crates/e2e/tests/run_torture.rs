//! `tenure run` under whatever chance can think of: leases revoked, leaders evicted, supervisors and guardians
//! killed and stopped alone and in pairs, the server restarted. Commands that ignore signals and turn away never
//! work beside each other.
//!
//! A few rounds in `make test`; more with `TENURE_ROUNDS=200`, another order with `TENURE_SEED=7`.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_e2e::{Cluster, Ctl, Supervised, Trail, children_of, eventually, send, tools};

const TTL: &str = "2s";
const SUPERVISORS: usize = 3;

/// Small, seeded, good enough.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

struct World {
    cluster: Cluster,
    ctl: Ctl,
    trail: Trail,
    runs: Vec<Supervised>,
}

impl World {
    fn start(&self) -> Supervised {
        let work = self.trail.stubborn();
        let words = ["run", "-e", "job", "--ttl", TTL, "--grace", "300ms", "--", "sh", "-c", &work];
        Supervised::start(&self.cluster.endpoints(), &words)
    }

    /// The supervisor with a command below two guardians: its index and the chain.
    fn leader(&self) -> Option<(usize, [u32; 2])> {
        self.runs.iter().enumerate().find_map(|(at, run)| {
            let outer = *children_of(run.pid()).first()?;
            let inner = *children_of(outer).first()?;
            children_of(inner).first().map(|_| (at, [outer, inner]))
        })
    }

    fn newest(&self) -> i64 {
        self.trail.steps().last().map_or(0, |(token, _)| *token)
    }

    /// Injects a fault into the leader. Answers which.
    async fn strike(&mut self, chance: &mut Chance) -> String {
        let found = eventually("somebody works", async || self.leader().ok_or(String::new())).await;
        let (at, [outer, inner]) = found;
        let supervisor = self.runs[at].pid();
        let sets: [(&str, &[u32]); 6] = [
            ("supervisor", &[supervisor]),
            ("outer", &[outer]),
            ("inner", &[inner]),
            ("supervisor and outer", &[supervisor, outer]),
            ("supervisor and inner", &[supervisor, inner]),
            ("outer and inner", &[outer, inner]),
        ];
        match chance.below(10) {
            0 => {
                let leader = self.ctl.run(&["leader", "job", "-w", "json"]).out;
                let leader: serde_json::Value = serde_json::from_str(&leader).unwrap_or_default();
                let session = leader["session"].as_str().unwrap_or_default().to_owned();
                self.ctl.run(&["lease", "revoke", &session]);
                format!("revoke {session}")
            }
            1 => {
                self.ctl.run(&["evict", "job"]);
                "evict".to_owned()
            }
            2 => {
                self.cluster.members[0].kill();
                self.cluster.members[0].start();
                self.cluster.ready().await;
                "restart the server".to_owned()
            }
            3 => {
                self.runs[at].signal(Signal::TERM);
                self.runs[at].program.ends().await;
                self.runs[at] = self.start();
                "end it politely".to_owned()
            }
            4..=5 => {
                // Not both guardians: one must be awake to kill.
                let (who, pids) = sets[chance.below(5)];
                for pid in pids {
                    send(*pid, Signal::STOP);
                }
                let before = self.newest();
                self.next_after(before).await;
                for pid in pids {
                    send(*pid, Signal::CONT);
                }
                format!("stop {who}")
            }
            _ => {
                let (who, pids) = sets[chance.below(6)];
                for pid in pids {
                    send(*pid, Signal::KILL);
                }
                // A supervisor that lives ends what its guardians left, and campaigns again.
                if pids.contains(&supervisor) {
                    self.runs[at] = self.start();
                }
                format!("kill {who}")
            }
        }
    }

    async fn next_after(&self, token: i64) {
        self.trail.token_after(token).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_never_lets_two_commands_work_at_once() {
    let (seed, rounds) = (number("TENURE_SEED", 1), number("TENURE_ROUNDS", 8));
    let cluster = Cluster::start(1).await;
    let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    let dir = tempfile::tempdir().unwrap();
    let mut world = World { cluster, ctl, trail: Trail::new(dir.path()), runs: vec![] };
    world.runs = (0..SUPERVISORS).map(|_| world.start()).collect();
    let mut chance = Chance(seed);
    let begun = Instant::now();
    for round in 0..rounds {
        let what = world.strike(&mut chance).await;
        println!("seed {seed} round {round} at {:?}: {what}", begun.elapsed());
        // A command works, also after the longest lease that can be left.
        let steps = world.trail.steps().len();
        eventually(
            &format!("work goes on after round {round} of seed {seed}: {what}"),
            async || {
                let more = world.trail.steps().len() - steps;
                if more > 100 { Ok(()) } else { Err(format!("{more} steps more")) }
            },
        )
        .await;
        if let Some(two) = world.trail.two_at_once() {
            let history = world.ctl.run(&["history", "job", "-w", "json"]).out;
            panic!("seed {seed} round {round}, {what}: {two}\n{history}");
        }
    }
    drop(std::mem::take(&mut world.runs));
    // What was ended by dropping is gone by its guardians within the lease; then no command works any more.
    let quiet = Duration::from_secs(1);
    eventually("everything ends", async || {
        let before = world.trail.steps().len();
        tokio::time::sleep(quiet).await;
        let after = world.trail.steps().len();
        if before == after { Ok(()) } else { Err(format!("{} steps in {quiet:?}", after - before)) }
    })
    .await;
    world.trail.never_two();
}
