//! Compares the processes that believe to lead with the real leaders.
//!
//! An election goes wrong in two ways: the cluster cannot decide, or a process acts on a decision that
//! is no longer true. So every member is asked on its own, at its own revision, and compared with what
//! a majority says; and every believer (sessions, sidecars, status files) is compared with
//! that. [`ask`] and [`elections`] fill a [`chart`], which is a value; [`findings`] judge it and decide
//! nothing else; [`mod@report`] writes it down.

mod ask;
mod believers;
mod chart;
mod elections;
mod findings;
mod report;

use std::path::PathBuf;

use self::chart::Chart;
use self::findings::{Finding, Level};
use crate::args::Settings;
use crate::exit::Exit;

/// What to examine.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Elections and locks to look at [default: all]
    names: Vec<String>,
    /// A sidecar to ask for what it believes; may be repeated
    #[arg(long, value_name = "URL")]
    sidecar: Vec<String>,
    /// A status file or marker file to compare with the cluster; may be repeated
    #[arg(long, value_name = "FILE")]
    status_file: Vec<PathBuf>,
}

const EXAMPLES: &str = "\
Findings are sorted, the worst first: critical and warning end with exit code 1, a note does not.
Exit codes: 0 all is well, 1 something is wrong, 69 no member can be reached.

Examples:
  tenure doctor                                       everything the cluster knows
  tenure doctor nightly-job -w json                   one election, for a script
  tenure doctor --sidecar http://127.0.0.1:4040       what a sidecar believes, too
  tenure doctor nightly-job --status-file /run/nightly-job.json
";

/// Asks all of them, judges, and reports what was found.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let chart = examine(&args, &settings).await?;
    let found = findings::judge(&chart);
    report::write(&settings, &chart, &found)?;
    Ok(exit(&chart, &found))
}

/// The same as JSON, about everything that the cluster knows.
pub(crate) async fn report(settings: &Settings) -> anyhow::Result<String> {
    let args = Args { names: vec![], sidecar: vec![], status_file: vec![] };
    let chart = examine(&args, settings).await?;
    report::json(&chart, &findings::judge(&chart))
}

/// A believer is asked before and after the cluster: only what it says both times is held against it,
/// because it may have changed its mind when the cluster did.
async fn examine(args: &Args, settings: &Settings) -> anyhow::Result<Chart> {
    let before = believers::ask(&args.sidecar, &args.status_file, settings).await;
    let mut chart = ask::cluster(settings).await?;
    let mut names = args.names.clone();
    let wanted = before.iter().filter_map(|believer| believer.election().map(str::to_owned));
    let only = !names.is_empty();
    names.extend(wanted);
    elections::look(&mut chart, names, only).await;
    let after = believers::ask(&args.sidecar, &args.status_file, settings).await;
    chart.believers = believers::steady(before, after);
    // A marker says nothing of its election; with one name given there is no doubt.
    if let [name] = &args.names[..] {
        chart.believers.iter_mut().for_each(|believer| believer.assume(name));
    }
    Ok(chart)
}

fn exit(chart: &Chart, found: &[Finding]) -> Exit {
    if chart.members.iter().all(|member| member.report.is_none()) {
        return Exit::Unreachable;
    }
    match found.iter().any(|finding| finding.level != Level::Note) {
        true => Exit::Error,
        false => Exit::Done,
    }
}
