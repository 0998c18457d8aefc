//! Load a cluster and measure it.

use std::io::{Write, stdout};

use tenure_bench::BenchTarget;

use crate::args::Settings;
use crate::exit::Exit;
use crate::output::Format;

pub(crate) use tenure_bench::Args;

/// Runs the workload and reports on stdout: for people, or as one JSON object.
pub(crate) fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let engine = settings.engine();
    let Settings { endpoints, options, .. } = settings;
    let target = BenchTarget { endpoints, options, engine };
    let report = tenure_bench::run(args, &target)?;
    let text = match settings.format {
        Format::Json => serde_json::to_string(&report)? + "\n",
        Format::Simple | Format::Fields | Format::Table => report.text(),
    };
    stdout().write_all(text.as_bytes())?;
    Ok(if report.operations > 0 { Exit::Done } else { Exit::Error })
}
