//! Lead until killed: the victim of `hand-over`.

use std::io::Write;
use std::time::Duration;

use tenure::{Election, Session, SessionOptions};

use crate::BenchTarget;
use crate::report::Report;
use tenure::api::duration::duration;

/// What to hold.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The election
    #[arg(long)]
    name: String,
    /// Time to live of the session
    #[arg(long, value_parser = duration)]
    ttl: Duration,
    /// End the session as soon as this process dies
    #[arg(long)]
    fast_release: bool,
}

/// Says its token when it leads, and then nothing more.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let fast_release = args.fast_release;
    let options = SessionOptions { fast_release, ..SessionOptions::new(args.ttl) };
    let session = Session::open_with(&target.engine, options).await?;
    let leads = Election::new(&session, args.name)?.candidate("").campaign().await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", leads.token())?;
    out.flush()?;
    anyhow::bail!("lost: {}", leads.lost().await)
}
