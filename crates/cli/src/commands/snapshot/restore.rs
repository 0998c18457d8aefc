//! Make a data directory of a saved file.

use std::path::PathBuf;

use tenure_server::Config;
use tenure_server::backup::{BackupError, Plan, restore};

use super::status::open;
use crate::args::Settings;
use crate::commands::progress::Progress;
use crate::exit::{Exit, usage};
use crate::output::Output;

pub(super) const AFTER_HELP: &str = "\
Each member of the new cluster restores the same file with the same --initial-cluster, then starts with
the same flags. Revisions jump by at least 10^12, leases and the keys on them are dropped, and the
cluster gets a new id: no fencing token can come a second time, also if a file is restored again.
";

/// etcdutl's flags.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    file: PathBuf,
    /// Where to put the data [default: NAME.tenure]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where to put the log, if not there
    #[arg(long, value_name = "DIR")]
    wal_dir: Option<PathBuf>,
    /// Human name of this member
    #[arg(long, default_value = "default")]
    name: String,
    /// All members the new cluster starts with, as NAME=URL,NAME=URL [default: this one alone]
    #[arg(long, value_name = "MEMBERS")]
    initial_cluster: Option<String>,
    /// Keeps clusters apart that have the same addresses
    #[arg(long, value_name = "TOKEN", default_value = "tenure-cluster")]
    initial_cluster_token: String,
    /// Where other members reach this one: one URL
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:2380")]
    initial_advertise_peer_urls: String,
    /// Read it though it has no checksum at its end (those inside are checked all the same)
    #[arg(long)]
    skip_hash_check: bool,
    /// How far revisions jump, if further than 10^12
    #[arg(long, value_name = "N", default_value_t = 0)]
    bump_revision: u64,
    /// Count what was before as compacted; it is always so here
    #[arg(long, hide = true)]
    mark_compacted: bool,
}

pub(super) fn run(args: &Args, settings: &Settings) -> anyhow::Result<Exit> {
    let plan = args.plan()?;
    let backup = open(&args.file, args.skip_hash_check)?;
    let mut progress = Progress::new("writing");
    let restored = restore(&backup, &plan, &mut |bytes| progress.at(bytes, None));
    drop(progress);
    let restored = restored.map_err(|error| match error {
        BackupError::Settings(_) => usage(error.to_string()),
        other => other.into(),
    })?;
    let mut output = Output::stdout(settings);
    output.snapshot_restored(&plan.config, &restored)?;
    output.flush()?;
    Ok(Exit::Done)
}

impl Args {
    fn plan(&self) -> anyhow::Result<Plan> {
        let urls: Vec<String> = self
            .initial_advertise_peer_urls
            .split(',')
            .map(|url| url.trim().to_owned())
            .filter(|url| !url.is_empty())
            .collect();
        let alone =
            || urls.iter().map(|url| format!("{}={url}", self.name)).collect::<Vec<_>>().join(",");
        let bump_revision = i64::try_from(self.bump_revision)
            .map_err(|_| usage("--bump-revision: it must be below 2^53"))?;
        let data_dir = self.data_dir.clone();
        let config = Config {
            name: self.name.clone(),
            data_dir: data_dir.unwrap_or_else(|| format!("{}.tenure", self.name).into()),
            wal_dir: self.wal_dir.clone(),
            initial_cluster: self.initial_cluster.clone().unwrap_or_else(alone),
            initial_cluster_token: self.initial_cluster_token.clone(),
            initial_advertise_peer_urls: urls,
            ..Config::default()
        };
        Ok(Plan { config, bump_revision })
    }
}
