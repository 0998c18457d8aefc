//! Lead until killed: the victim of `hand-over`.

use std::io::Write;
use std::time::Duration;

use tenure::{Election, Session, SessionOptions};

use super::report::Report;
use crate::args::{Settings, duration};

/// What to hold.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
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
pub(super) async fn run(args: Args, settings: &Settings) -> anyhow::Result<Report> {
    let engine = settings.engine();
    let fast_release = args.fast_release;
    let options = SessionOptions { fast_release, ..SessionOptions::new(args.ttl) };
    let session = Session::open_with(&engine, options).await?;
    let leads = Election::new(&session, args.name)?.candidate("").campaign().await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", leads.token())?;
    out.flush()?;
    anyhow::bail!("lost: {}", leads.lost().await)
}

pub(super) fn endpoints(settings: &Settings) -> String {
    let all: Vec<String> = settings.endpoints.iter().map(ToString::to_string).collect();
    all.join(",")
}
