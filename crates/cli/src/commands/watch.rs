//! See keys change.

use std::ffi::OsString;

use tenure::api::wire::etcdserverpb as pb;
use tokio::signal::ctrl_c;

use crate::args::{Settings, SpanArgs};
use crate::exit::Exit;
use crate::output::Output;

/// Which keys, and what to be told of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The key, or the first of a range
    key: OsString,
    /// The key after the last of the range
    range_end: Option<OsString>,
    /// All keys that begin with KEY
    #[arg(long)]
    prefix: bool,
    /// From this revision on, which may lie in the past
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    rev: i64,
    /// Show what was there before each change
    #[arg(long)]
    prev_kv: bool,
    /// Be told now and then how far the watch is
    #[arg(long)]
    progress_notify: bool,
}

impl Args {
    fn request(self) -> anyhow::Result<pb::WatchCreateRequest> {
        let keys = SpanArgs {
            key: self.key,
            range_end: self.range_end,
            prefix: self.prefix,
            from_key: false,
        };
        let (key, range_end) = keys.span()?.to_wire();
        Ok(pb::WatchCreateRequest {
            key,
            range_end,
            start_revision: self.rev,
            progress_notify: self.progress_notify,
            prev_kv: self.prev_kv,
            ..Default::default()
        })
    }
}

/// Writes events until interrupted. A broken connection is taken up again where it broke.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let mut output = Output::stdout(&settings);
    let client = settings.client();
    let mut watch = client.watch().resumed(args.request()?).await?;
    loop {
        let answer = tokio::select! {
            answer = watch.next() => answer?,
            _ = ctrl_c() => return Ok(Exit::Interrupted),
        };
        if answer.created && !answer.canceled {
            continue;
        }
        output.watch(&answer)?;
        if answer.canceled {
            anyhow::bail!("watch was canceled ({})", reason(&answer));
        }
    }
}

fn reason(answer: &pb::WatchResponse) -> String {
    match (answer.compact_revision, answer.cancel_reason.as_str()) {
        (0, "") => "etcdserver: watch canceled".into(),
        (0, reason) => reason.into(),
        (revision, _) => format!(
            "etcdserver: mvcc: required revision has been compacted; the oldest is --rev {revision}"
        ),
    }
}
