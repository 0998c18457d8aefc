//! Algorithms side by side.

use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use serde_json::json;
use tenure_lab::algorithms::{self, ALGORITHMS, Algorithm};
use tenure_lab::compare::{ComparisonRow, disagreements, measure, table};

use super::name::{Kind, NameOf, unknown};
use super::text::{self, wrapped};
use crate::commands::columns;
use crate::commands::version::COMMIT;
use crate::exit::Exit;
use crate::output::Format;

const CLAIMS: &str = "Common claims in notes on leader election that the measurement contradicts:";

/// Which algorithms, and how many seeds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which algorithms [default: all]
    #[arg(value_parser = NameOf(&[Kind::Algorithm]), hide_possible_values = true)]
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
    let width = columns(stdout());
    write!(out, "{}", table(&rows, width))?;
    let disagreements = disagreements(&rows);
    if !disagreements.is_empty() {
        writeln!(out, "\n{CLAIMS}")?;
    }
    for one in disagreements {
        let mut line = format!("- \"{}\" (on {}); {}.", one.claim, one.from, one.found);
        if !one.why.is_empty() {
            line += &format!(" The reason: {}.", one.why);
        }
        writeln!(out, "{}", wrapped(&line, 2, text::width()))?;
    }
    writeln!(out, "\n{} seeds each, commit {COMMIT}", args.seeds)?;
    Ok(Exit::Done)
}

/// One algorithm, measured with so many seeds.
pub(super) fn measured_json(algorithm: &'static Algorithm, seeds: u64) -> serde_json::Value {
    let mut row = row_json(&measure(algorithm, seeds));
    row["seeds"] = seeds.into();
    row
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Algorithm>> {
    if names.is_empty() {
        return Ok(ALGORITHMS.to_vec());
    }
    let known = |name: &String| {
        algorithms::algorithm(name).ok_or_else(|| unknown(name, &[Kind::Algorithm]))
    };
    names.iter().map(known).collect()
}

fn row_json(row: &ComparisonRow) -> serde_json::Value {
    let us = |time: Duration| time.as_micros() as u64;
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
        "double_in_partition_us": us(row.in_partition.lasted),
        "double_in_pause_us": us(row.in_pause.lasted),
        "double_in_skew_us": us(row.in_skew.lasted),
        "doubles_in_partition": row.in_partition.times,
        "doubles_in_pause": row.in_pause.times,
        "doubles_in_skew": row.in_skew.times,
        "stale_in_partition": row.in_partition.stale,
        "stale_in_pause": row.in_pause.stale,
        "stale_in_skew": row.in_skew.stale,
        "routine_per_s": row.routine_per_s,
    })
}

fn as_json(rows: &[ComparisonRow]) -> serde_json::Value {
    let lines: Vec<_> = rows.iter().map(row_json).collect();
    let claims: Vec<_> = disagreements(rows)
        .into_iter()
        .map(|one| json!({ "claim": one.claim, "from": one.from, "found": one.found.to_string(), "why": one.why }))
        .collect();
    json!({ "commit": COMMIT, "algorithms": lines, "not_as_said": claims })
}
