//! Forget history before a revision.

use serde::Serialize;
use tenure::api::wire::etcdserverpb::CompactionRequest;

use crate::args::Settings;
use crate::exit::Exit;
use crate::output::Output;

/// Up to where.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The oldest revision that can be read afterwards
    revision: i64,
    /// Answer only when the space is free
    #[arg(long)]
    physical: bool,
}

#[derive(Serialize)]
struct Compacted {
    revision: i64,
    physical: bool,
}

/// Does it.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let Args { revision, physical } = args;
    settings.client().kv().compact(CompactionRequest { revision, physical }).await?;
    let mut output = Output::stdout(&settings);
    output.records([Compacted { revision, physical }], |_| {
        format!("compacted revision {revision}")
    })?;
    output.flush()?;
    Ok(Exit::Done)
}
