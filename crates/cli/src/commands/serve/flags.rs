//! The server's flags: etcd's names, with the environment behind them.

use std::{path::PathBuf, str::FromStr, time::Duration};

use clap::ValueEnum;
use tenure_server::config::{ClusterState, Config, Problem};

use crate::args::duration;

/// How the server is to be run.
///
/// Without any flag: one durable node on 127.0.0.1:2379. Every flag can also be set in the
/// environment as TENURE_FLAG or ETCD_FLAG, in capitals with `_`; a flag wins over TENURE_, and
/// that over ETCD_.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Human name of this member [default: default]
    #[arg(long)]
    name: Option<String>,
    /// Where everything is kept [default: NAME.tenure]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where the log is kept, if not in the data directory
    #[arg(long, value_name = "DIR")]
    wal_dir: Option<PathBuf>,
    /// Where to listen for clients [default: http://127.0.0.1:2379]
    #[arg(long, value_name = "URLS")]
    listen_client_urls: Option<String>,
    /// Where clients are told to come [default: what is listened to]
    #[arg(long, value_name = "URLS")]
    advertise_client_urls: Option<String>,
    /// Where to listen for other members [default: http://127.0.0.1:2380]
    #[arg(long, value_name = "URLS")]
    listen_peer_urls: Option<String>,
    /// Where other members reach this one [default: http://127.0.0.1:2380]
    #[arg(long, value_name = "URLS")]
    initial_advertise_peer_urls: Option<String>,
    /// All members the cluster starts with, as NAME=URL,NAME=URL [default: this one alone]
    #[arg(long, value_name = "MEMBERS")]
    initial_cluster: Option<String>,
    /// Whether the cluster starts for the first time [default: new]
    #[arg(long, value_name = "new|existing")]
    initial_cluster_state: Option<String>,
    /// Keeps clusters apart that have the same addresses [default: tenure-cluster]
    #[arg(long, value_name = "TOKEN")]
    initial_cluster_token: Option<String>,
    /// How often the raft leader shows itself, in milliseconds [default: 50]
    #[arg(long, value_name = "MS")]
    heartbeat_interval: Option<String>,
    /// How long a silent raft leader is believed in, in milliseconds [default: 500]
    #[arg(long, value_name = "MS")]
    election_timeout: Option<String>,
    /// Log entries between snapshots, at the most [default: 100000]
    #[arg(long, value_name = "N")]
    snapshot_count: Option<String>,
    /// Operations in a transaction, at the most [default: 128]
    #[arg(long, value_name = "N")]
    max_txn_ops: Option<String>,
    /// Size of a request, at the most [default: 1572864]
    #[arg(long, value_name = "BYTES")]
    max_request_bytes: Option<String>,
    /// Ask whether an election could be won before starting one [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pre_vote: Option<String>,
    /// How often a quiet watch that asks for it is told the revision [default: 10m]
    #[arg(long, value_name = "DURATION")]
    watch_progress_notify_interval: Option<String>,
    /// What is logged: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(super) log_level: Option<String>,
    /// How it is logged [default: console on a terminal, else json]
    #[arg(long)]
    pub(super) log_format: Option<LogFormat>,
}

/// The shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Console,
}

impl Args {
    /// The settings that flags and environment make, or everything that is wrong with them.
    pub(super) fn config(&self) -> Result<Config, Vec<Problem>> {
        let mut read = Reading { problems: vec![] };
        let default = Config::default();
        let name = text(&self.name, "name").unwrap_or(default.name);
        let peer_urls = urls(&self.initial_advertise_peer_urls, "initial-advertise-peer-urls")
            .unwrap_or(default.initial_advertise_peer_urls);
        let alone =
            || peer_urls.iter().map(|url| format!("{name}={url}")).collect::<Vec<_>>().join(",");
        let initial_cluster = text(&self.initial_cluster, "initial-cluster").unwrap_or_else(alone);
        let listen_client_urls = urls(&self.listen_client_urls, "listen-client-urls")
            .unwrap_or(default.listen_client_urls);
        let config = Config {
            data_dir: path(&self.data_dir, "data-dir")
                .unwrap_or_else(|| format!("{name}.tenure").into()),
            wal_dir: path(&self.wal_dir, "wal-dir"),
            advertise_client_urls: urls(&self.advertise_client_urls, "advertise-client-urls")
                .unwrap_or_else(|| listen_client_urls.clone()),
            listen_client_urls,
            listen_peer_urls: urls(&self.listen_peer_urls, "listen-peer-urls")
                .unwrap_or(default.listen_peer_urls),
            initial_advertise_peer_urls: peer_urls,
            initial_cluster,
            initial_cluster_state: read.cluster_state(&self.initial_cluster_state),
            initial_cluster_token: text(&self.initial_cluster_token, "initial-cluster-token")
                .unwrap_or(default.initial_cluster_token),
            heartbeat_interval: read
                .millis(&self.heartbeat_interval, "heartbeat-interval")
                .unwrap_or(default.heartbeat_interval),
            election_timeout: read
                .millis(&self.election_timeout, "election-timeout")
                .unwrap_or(default.election_timeout),
            snapshot_count: read
                .number(&self.snapshot_count, "snapshot-count")
                .unwrap_or(default.snapshot_count),
            max_txn_ops: read
                .number(&self.max_txn_ops, "max-txn-ops")
                .unwrap_or(default.max_txn_ops),
            max_request_bytes: read
                .number(&self.max_request_bytes, "max-request-bytes")
                .unwrap_or(default.max_request_bytes),
            pre_vote: read.number(&self.pre_vote, "pre-vote").unwrap_or(default.pre_vote),
            watch_progress_notify_interval: read
                .duration(&self.watch_progress_notify_interval, "watch-progress-notify-interval")
                .unwrap_or(default.watch_progress_notify_interval),
            name,
        };
        let mut problems = read.problems;
        problems.extend(config.problems());
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }
}

/// Reads values that can be wrong, and collects what is.
struct Reading {
    problems: Vec<Problem>,
}

impl Reading {
    fn number<T: FromStr>(&mut self, flag: &Option<String>, name: &'static str) -> Option<T> {
        let given = text(flag, name)?;
        let number = given.parse().ok();
        if number.is_none() {
            self.wrong(name, format!("{given:?} is not a value it can take"));
        }
        number
    }

    fn millis(&mut self, flag: &Option<String>, name: &'static str) -> Option<Duration> {
        self.number(flag, name).map(Duration::from_millis)
    }

    fn duration(&mut self, flag: &Option<String>, name: &'static str) -> Option<Duration> {
        let given = text(flag, name)?;
        let parsed = duration(&given);
        if let Err(rule) = &parsed {
            self.wrong(name, rule.clone());
        }
        parsed.ok()
    }

    fn cluster_state(&mut self, flag: &Option<String>) -> ClusterState {
        match text(flag, "initial-cluster-state").as_deref() {
            None | Some("new") => ClusterState::New,
            Some("existing") => ClusterState::Existing,
            Some(other) => {
                self.wrong("initial-cluster-state", format!("{other:?} must be new or existing"));
                ClusterState::New
            }
        }
    }

    fn wrong(&mut self, flag: &'static str, rule: String) {
        self.problems.push(Problem { flag, rule });
    }
}

/// The flag, or else the environment.
pub(super) fn text(flag: &Option<String>, name: &str) -> Option<String> {
    flag.clone().or_else(|| from_environment(name))
}

fn path(flag: &Option<PathBuf>, name: &str) -> Option<PathBuf> {
    flag.clone().or_else(|| from_environment(name).map(Into::into))
}

fn urls(flag: &Option<String>, name: &str) -> Option<Vec<String>> {
    let list = text(flag, name)?;
    Some(list.split(',').map(|url| url.trim().to_owned()).filter(|url| !url.is_empty()).collect())
}

fn from_environment(name: &str) -> Option<String> {
    let name = name.to_uppercase().replace('-', "_");
    ["TENURE", "ETCD"]
        .iter()
        .find_map(|prefix| std::env::var(format!("{prefix}_{name}")).ok())
        .filter(|value| !value.is_empty())
}
