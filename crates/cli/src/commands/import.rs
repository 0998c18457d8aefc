//! Make a member's data directory of an etcd snapshot.

use std::path::PathBuf;

use tenure_server::Config;
use tenure_server::import::{Doing, ImportSummary, Source, import};

use crate::commands::progress::Progress;
use crate::exit::{Exit, usage};

/// What to take over, and for which member.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file that `etcdctl snapshot save` wrote
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Where the member will keep its data; must not exist yet, or be empty
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Where the member will keep its log, if not there; must not exist yet, or be empty
    #[arg(long, value_name = "DIR")]
    wal_dir: Option<PathBuf>,
    /// The member's name
    #[arg(long, default_value = "default")]
    name: String,
    /// All members of the new cluster, as NAME=URL,NAME=URL [default: this one alone]
    #[arg(long, value_name = "MEMBERS")]
    initial_cluster: Option<String>,
    /// Keeps clusters with the same addresses apart
    #[arg(long, value_name = "TOKEN")]
    initial_cluster_token: Option<String>,
    /// Where other members reach this one [default: what --initial-cluster says]
    #[arg(long, value_name = "URL")]
    initial_advertise_peer_urls: Option<String>,
    /// Take the file without the checksum at its end: for a copy of etcd's own db file
    #[arg(long)]
    skip_hash_check: bool,
    /// Leave users and roles behind: every client will be able to use the keys
    #[arg(long)]
    without_auth: bool,
    /// How far revisions jump: at least as often as etcd may have written after the file was saved
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    bump_revision: u64,
}

/// Imports, then says what there is and how to go on.
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let bump_revision = i64::try_from(args.bump_revision)
        .map_err(|_| usage("--bump-revision: it must be below 2^53"))?;
    let source = Source {
        file: args.from.clone(),
        bump_revision,
        skip_hash_check: args.skip_hash_check,
        without_auth: args.without_auth,
    };
    let config = args.config();
    let (mut at, mut progress) = (Doing::Reading, Progress::new("reading"));
    let summary = import(&source, &config, &mut |doing, done, of| {
        if at != doing {
            (at, progress) = (doing, Progress::new("writing"));
        }
        progress.at(done, Some(of));
    });
    drop(progress);
    let summary = summary?;
    println!("{}", told(&summary));
    println!("member {} of cluster {} is ready to start:", config.member_id(), summary.cluster_id);
    println!("  {}", start_command(&config));
    if config.members().len() > 1 {
        eprintln!("import the same file for every member before you start the first");
    }
    if summary.store_bytes > Config::QUOTA_DEFAULT {
        eprintln!(
            "it takes about {} bytes of memory: start it with a larger --quota-backend-bytes",
            summary.store_bytes
        );
    }
    eprintln!("the etcd cluster must stay stopped: it would give out the same revisions again");
    Ok(Exit::Done)
}

impl Args {
    fn config(self) -> Config {
        let defaults = Config::default();
        let alone = || format!("{}={}", self.name, defaults.initial_advertise_peer_urls[0]);
        let initial_cluster = self.initial_cluster.unwrap_or_else(alone);
        let mine = format!("{}=", self.name);
        let told = initial_cluster.split(',').find_map(|part| part.trim().strip_prefix(&mine));
        let peer_url = self.initial_advertise_peer_urls.or_else(|| told.map(str::to_owned));
        let peer_urls = peer_url.map_or(defaults.initial_advertise_peer_urls, |url| vec![url]);
        Config {
            name: self.name,
            data_dir: self.data_dir,
            wal_dir: self.wal_dir,
            initial_cluster,
            initial_cluster_token: self
                .initial_cluster_token
                .unwrap_or(defaults.initial_cluster_token),
            initial_advertise_peer_urls: peer_urls,
            ..Config::default()
        }
    }
}

fn told(summary: &ImportSummary) -> String {
    let ImportSummary {
        keys,
        versions,
        revision,
        compacted,
        leases,
        leased_keys,
        file_bytes,
        users,
        roles,
        ..
    } = summary;
    let count = if summary.auth_enabled { "they count" } else { "they do not count yet" };
    format!(
        "{keys} keys at revision {revision}, history from revision {compacted} on\n\
         {leases} leases with {leased_keys} keys\n\
         {users} users and {roles} roles; {count}\n\
         {versions} versions read from {file_bytes} bytes"
    )
}

/// The settings that must be the same at the start.
fn start_command(config: &Config) -> String {
    let url = &config.initial_advertise_peer_urls[0];
    let mut words = vec!["tenure serve".to_owned(), format!("--name {}", config.name)];
    words.push(format!("--data-dir {}", config.data_dir.display()));
    if let Some(wal_dir) = &config.wal_dir {
        words.push(format!("--wal-dir {}", wal_dir.display()));
    }
    words.push(format!("--initial-cluster {}", config.initial_cluster));
    if config.initial_cluster_token != Config::default().initial_cluster_token {
        words.push(format!("--initial-cluster-token {}", config.initial_cluster_token));
    }
    words.push(format!("--initial-advertise-peer-urls {url} --listen-peer-urls {url}"));
    words.join(" ")
}
