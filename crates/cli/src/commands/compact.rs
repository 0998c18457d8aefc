//! Forget history before a revision.

use tenure::api::wire::etcdserverpb::CompactionRequest;

use crate::args::Settings;
use crate::exit::Exit;

/// Up to where.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The oldest revision that can be read afterwards
    revision: i64,
    /// Answer only when the space is free
    #[arg(long)]
    physical: bool,
}

/// Does it. The answer is one line in every format, as etcdctl's.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let Args { revision, physical } = args;
    settings.client().kv().compact(CompactionRequest { revision, physical }).await?;
    println!("compacted revision {revision}");
    Ok(Exit::Done)
}
