//! Delete a key or a range of keys.

use tenure::api::DeleteRange;
use tenure::api::wire::etcdserverpb as pb;

use crate::args::{Settings, SpanArgs};
use crate::exit::Exit;
use crate::output::Output;

/// What to delete.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    keys: SpanArgs,
    /// Show what was deleted
    #[arg(long)]
    prev_kv: bool,
}

impl Args {
    /// The request that this asks for.
    pub(crate) fn request(&self) -> anyhow::Result<pb::DeleteRangeRequest> {
        Ok(DeleteRange { span: self.keys.span()?, prev_kv: self.prev_kv }.into())
    }
}

/// Deletes and says how many there were.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let response = settings.client().kv().delete_range(args.request()?).await?;
    let mut output = Output::stdout(&settings);
    output.del(&response)?;
    output.flush()?;
    Ok(Exit::Done)
}
