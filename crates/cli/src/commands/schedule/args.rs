//! What may be typed.

use std::path::PathBuf;
use std::time::Duration;

use crate::args::{CandidateArgs, duration};

/// Run the jobs of a file, on one of many machines at a time.
#[derive(Debug, clap::Args)]
pub(crate) struct Schedule {
    /// The jobs: YAML, JSON, or TOML if the name ends in .toml
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Show the next runs of each job, and what came of the last one
    #[arg(long, conflicts_with = "check")]
    pub(super) list: bool,
    /// How many runs to show
    #[arg(long, value_name = "N", default_value_t = 3, requires = "list")]
    pub(super) count: usize,
    /// Read the file, say what is wrong with it, and exit
    #[arg(long)]
    pub(super) check: bool,
    /// How long the lease lasts without a renewal
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION")]
    pub(super) ttl: Duration,
    /// How long a job may take to end by itself before it is killed [default: a quarter of --ttl]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(super) grace: Option<Duration>,
    #[command(flatten)]
    pub(super) candidate: CandidateArgs,
    /// Print only what goes wrong
    #[arg(long, short = 'q')]
    pub(super) quiet: bool,
}
