//! Algorithms side by side.

use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use serde_json::json;
use tenure_lab::algorithms::{self, ALGORITHMS, Algorithm};
use tenure_lab::compare::{ComparisonRow, disagreements, measure, table};

use crate::commands::version::COMMIT;
use crate::exit::{Exit, usage};
use crate::output::Format;

/// Which algorithms, and how many seeds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which algorithms [default: all]
    algorithms: Vec<String>,
    /// How many seeds to run each experiment with
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<Exit> {
    let chosen = chosen(&args.algorithms)?;
    let mut rows = vec![];
    for (at, algorithm) in chosen.iter().enumerate() {
        if std::io::stderr().is_terminal() {
            eprint!("\r{}/{} {:<30}", at + 1, chosen.len(), algorithm.name);
        }
        rows.push(measure(algorithm, args.seeds));
    }
    if std::io::stderr().is_terminal() {
        eprint!("\r{:<50}\r", "");
    }
    let mut out = stdout().lock();
    if format == Format::Json {
        writeln!(out, "{}", as_json(&rows))?;
        return Ok(Exit::Done);
    }
    write!(out, "{}", table(&rows))?;
    let disagreements = disagreements(&rows);
    if !disagreements.is_empty() {
        writeln!(out, "\nCommon claims that the measurement contradicts:")?;
    }
    for one in disagreements {
        writeln!(out, "- \"{}\" ({}); {}.", one.claim, one.from, one.found)?;
        if !one.why.is_empty() {
            writeln!(out, "  {}.", one.why)?;
        }
    }
    writeln!(out, "\n{} seeds each, commit {COMMIT}", args.seeds)?;
    Ok(Exit::Done)
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Algorithm>> {
    if names.is_empty() {
        return Ok(ALGORITHMS.to_vec());
    }
    let known: Vec<&str> = ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
    names
        .iter()
        .map(|name| {
            let unknown = || {
                usage(format!(
                    "there is no algorithm {name}; the algorithms are {}",
                    known.join(", ")
                ))
            };
            algorithms::algorithm(name).ok_or_else(unknown)
        })
        .collect()
}

fn as_json(rows: &[ComparisonRow]) -> serde_json::Value {
    let us = |time: Duration| time.as_micros() as u64;
    let lines: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "algorithm": row.algorithm,
                "messages": row.messages,
                "growth_power": row.growth,
                "rounds": row.rounds,
                "detection_us": row.detection.map(us),
                "failover_us": row.failover.map(us),
                "failover_max_us": row.failover_max.map(us),
                "nines_at_one_death_a_day": row.nines(),
                "vacancy": row.vacancy,
                "top_share": row.top_share,
                "winners": row.winners,
                "partition_leads": row.sides.name(),
                "double_in_partition_us": us(row.double_in_partition),
                "double_in_pause_us": us(row.double_in_pause),
                "double_in_skew_us": us(row.double_in_skew),
                "stale_in_partition": row.stale_in_partition,
                "stale_in_pause": row.stale_in_pause,
                "stale_in_skew": row.stale_in_skew,
                "routine_per_s": row.routine_per_s,
            })
        })
        .collect();
    let claims: Vec<_> = disagreements(rows)
        .into_iter()
        .map(|one| json!({ "claim": one.claim, "from": one.from, "found": one.found.to_string(), "why": one.why }))
        .collect();
    json!({ "commit": COMMIT, "algorithms": lines, "not_as_said": claims })
}
