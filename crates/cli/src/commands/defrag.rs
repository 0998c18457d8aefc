//! Give space back, where it has to be asked for.

use serde::Serialize;

use super::endpoint::everyone;
use crate::args::Settings;
use crate::exit::Exit;
use crate::output::Output;

/// Which members.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ask every member of the cluster, not only the endpoints
    #[arg(long)]
    cluster: bool,
}

#[derive(Serialize)]
struct Defragmented {
    endpoint: String,
}

/// Asks one member after the other, because an etcd stands still while it does it.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let client = everyone(&settings, args.cluster).await?;
    let mut exit = Exit::Done;
    let mut output = Output::stdout(&settings);
    for (endpoint, member) in client.each_member() {
        match member.maintenance().defragment().await {
            Ok(_) => {
                let endpoint = endpoint.to_string();
                output.records([Defragmented { endpoint }], |done| {
                    format!("Finished defragmenting etcd member[{}]", done.endpoint)
                })?;
                output.flush()?;
            }
            Err(error) => {
                eprintln!("Failed to defragment etcd member[{endpoint}] ({error})");
                exit = Exit::Error;
            }
        }
    }
    eprintln!("a tenure server had nothing to do: what compaction frees is free at once");
    Ok(exit)
}
