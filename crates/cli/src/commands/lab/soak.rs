//! Seed after seed, for a given time.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use serde_json::json;
use tenure_lab::cluster::scenario::Scenario;
use tenure_lab::engine::{RunCounts, Trace};
use tenure_lab::invariants;

use super::failure;
use super::name::{Kind, NameOf, RunName, unknown};
use super::run::{scenario, tell_never};
use crate::args::duration;
use crate::commands::version::COMMIT;
use crate::exit::{Exit, usage};
use crate::output::Format;

/// How often progress is printed.
const TELL_INTERVAL: Duration = Duration::from_secs(10);
/// After this many seeds in a row every fault must have had an effect, and every invariant must have been checked.
const SEEDS_ENOUGH: u64 = 20;

/// For how long, and what.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long to play: minutes, or as 90s
    #[arg(long, default_value_t = 10.0, value_parser = minutes)]
    minutes: f64,
    /// What to play; may be repeated, and they take turns
    #[arg(long, default_value = "soak", value_parser = NameOf(&[Kind::Scenario]), hide_possible_values = true)]
    scenario: Vec<String>,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = match text.parse() {
        Ok(minutes) => minutes,
        Err(_) => {
            duration(text)
                .map_err(|_| format!("{text:?} is neither minutes nor a duration such as 90s"))?
                .as_secs_f64()
                / 60.0
        }
    };
    if minutes > 0.0 && minutes <= 100_000.0 {
        Ok(minutes)
    } else {
        Err("it is more than 0 and at most 100000 minutes".into())
    }
}

/// The totals so far.
struct Tally {
    started: Instant,
    told: Instant,
    seeds: u64,
    virtual_time: Duration,
    operations: u64,
    counts: RunCounts,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<Exit> {
    let scenarios = args
        .scenario
        .iter()
        .map(|name| scenario(name).ok_or_else(|| unknown(name, &[Kind::Scenario])))
        .collect::<anyhow::Result<Vec<&Scenario>>>()?;
    let now = Instant::now();
    let mut tally = Tally {
        started: now,
        told: now,
        seeds: 0,
        virtual_time: Duration::ZERO,
        operations: 0,
        counts: RunCounts::default(),
    };
    let limit = Duration::from_secs_f64(args.minutes * 60.0);
    let mut seed = args.seed;
    while tally.started.elapsed() < limit {
        for scenario in &scenarios {
            failure::when_it_fails(&RunName::here(scenario.name, seed), None, None, format);
            let world = scenario.play_traced(seed, None, Trace::default()).map_err(usage)?;
            tally.add(&world);
        }
        seed += 1;
        tally.tell(seed);
    }
    let _ = std::panic::take_hook();
    tally.report(&scenarios, args.seed..seed, format)
}

impl Tally {
    fn add(&mut self, world: &tenure_lab::cluster::World) {
        self.seeds += 1;
        self.virtual_time += world.now().since_start();
        self.operations += world.counts.of(invariants::one_answer::NAME);
        self.counts.add(&world.counts);
    }

    fn pace(&self) -> f64 {
        self.virtual_time.as_secs_f64() / self.started.elapsed().as_secs_f64()
    }

    fn tell(&mut self, seed: u64) {
        if self.told.elapsed() < TELL_INTERVAL {
            return;
        }
        self.told = Instant::now();
        let virtual_s = self.virtual_time.as_secs();
        let line = format!("seed {seed}: {virtual_s} virtual seconds, {:.0} a second", self.pace());
        // One line that is overwritten on a terminal, many lines in logs.
        if std::io::stderr().is_terminal() {
            eprint!("\r{line}   ");
        } else {
            eprintln!("{line}");
        }
    }

    fn report(
        &self,
        scenarios: &[&Scenario],
        seeds: std::ops::Range<u64>,
        format: Format,
    ) -> anyhow::Result<Exit> {
        let expected: Vec<&'static str> = scenarios
            .iter()
            .flat_map(|scenario| {
                let faults = scenario.faults.iter().map(|fault| fault.name);
                faults.chain(invariants::expected(scenario))
            })
            .collect();
        let never = if self.seeds >= SEEDS_ENOUGH { self.counts.missing(expected) } else { vec![] };
        let virtual_s = self.virtual_time.as_secs_f64();
        let rate = self.operations as f64 / virtual_s.max(1.0);
        let names: Vec<&str> = scenarios.iter().map(|scenario| scenario.name).collect();
        if format == Format::Json {
            let counts: serde_json::Map<String, serde_json::Value> =
                self.counts.iter().map(|(what, count)| (what.to_owned(), json!(count))).collect();
            let line = json!({
                "commit": COMMIT,
                "scenarios": names,
                "first_seed": seeds.start,
                "last_seed": seeds.end - 1,
                "virtual_s": virtual_s,
                "real_s": self.started.elapsed().as_secs_f64(),
                "virtual_s_per_s": self.pace(),
                "operations": self.operations,
                "never_happened": never,
                "counts": counts,
            });
            writeln!(stdout(), "{line}")?;
        } else {
            let mut out = stdout().lock();
            writeln!(
                out,
                "\ncommit {COMMIT}, {}, seeds {} to {}",
                names.join(" and "),
                seeds.start,
                seeds.end - 1
            )?;
            writeln!(
                out,
                "{virtual_s:.0} virtual seconds in {:.0} s: {:.0} a second; {} client operations, {rate:.0} a virtual second",
                self.started.elapsed().as_secs_f64(),
                self.pace(),
                self.operations
            )?;
            for (what, count) in self.counts.iter() {
                writeln!(out, "  {what:<22} {count}")?;
            }
            writeln!(out, "nothing broke")?;
            tell_never(&mut out, &never)?;
        }
        Ok(if never.is_empty() { Exit::Done } else { Exit::Error })
    }
}
