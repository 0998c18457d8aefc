//! How a server is set up, and the rules its settings must keep.

mod cluster;
mod compaction;
#[cfg(test)]
mod fuzz;
mod rules;
mod tls;

use std::{path::PathBuf, time::Duration};

pub(crate) use self::cluster::{hash, host};
pub(crate) use self::tls::auto_pair;
pub use self::{
    cluster::{address, is_tls},
    compaction::AutoCompaction,
    rules::Problem,
    tls::{TlsProtocol, TlsSettings},
};

use crate::audit::AuditTarget;

/// A server's settings, under etcd's names.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `--name`: this member's human name.
    pub name: String,
    /// `--data-dir`: where everything is kept.
    pub data_dir: PathBuf,
    /// `--wal-dir`: where the log is kept, if not there.
    pub wal_dir: Option<PathBuf>,
    /// `--listen-client-urls`: where clients are listened to.
    pub listen_client_urls: Vec<String>,
    /// `--advertise-client-urls`: where clients are told to come.
    pub advertise_client_urls: Vec<String>,
    /// `--listen-peer-urls`: where other members are listened to.
    pub listen_peer_urls: Vec<String>,
    /// `--initial-advertise-peer-urls`: where other members reach this one.
    pub initial_advertise_peer_urls: Vec<String>,
    /// `--initial-cluster`: all members, `name=url,name=url`. A name may come more than once.
    pub initial_cluster: String,
    /// `--initial-cluster-state`: a cluster that starts for the first time, or one that runs.
    pub initial_cluster_state: ClusterState,
    /// `--initial-cluster-token`: keeps clusters with the same addresses apart.
    pub initial_cluster_token: String,
    /// `--force-new-cluster`: this member's data becomes a cluster of its own.
    pub force_new_cluster: bool,
    /// `--heartbeat-interval`.
    pub heartbeat_interval: Duration,
    /// `--election-timeout`.
    pub election_timeout: Duration,
    /// `--snapshot-count`: log entries between snapshots, at the most.
    pub snapshot_count: u64,
    /// `--max-txn-ops`.
    pub max_txn_ops: usize,
    /// `--max-request-bytes`.
    pub max_request_bytes: usize,
    /// `--pre-vote`.
    pub pre_vote: bool,
    /// `--grpc-keepalive-interval`: a client that is silent for so long is pinged; zero for never.
    pub grpc_keepalive_interval: Duration,
    /// `--grpc-keepalive-timeout`: how long it may take to answer; zero for no pings.
    pub grpc_keepalive_timeout: Duration,
    /// `--watch-progress-notify-interval`.
    pub watch_progress_notify_interval: Duration,
    /// `--quota-backend-bytes`: how large the store may grow; 0 for [`Config::QUOTA_DEFAULT`].
    pub quota_backend_bytes: u64,
    /// `--auto-compaction-mode` and `--auto-compaction-retention`.
    pub auto_compaction: AutoCompaction,
    /// `--corrupt-check-time`: how often members compare their data; zero for never.
    pub corrupt_check_time: Duration,
    /// `--warning-apply-duration`: a round of the core loop that applies entries and takes longer is
    /// logged and counted as slow.
    pub warning_apply_duration: Duration,
    /// `--metrics`: whether latencies of each gRPC method are measured too.
    pub metrics: MetricsDetail,
    /// `--listen-metrics-urls`: where `/metrics` and `/health` are served besides the client URLs.
    pub listen_metrics_urls: Vec<String>,
    /// `--cors`: origins whose web pages may use this member.
    pub cors: Vec<String>,
    /// `--host-whitelist`: names that HTTP clients may use for this member, besides the advertised ones.
    pub host_whitelist: Vec<String>,
    /// `--ui`: the dashboard at `/ui/`.
    pub ui: UiMode,
    /// Whether the pages offer the lab, whose routes the process adds.
    pub lab: bool,
    /// TLS with clients: `--cert-file` and the like.
    pub client_tls: TlsSettings,
    /// TLS with other members: `--peer-cert-file` and the like.
    pub peer_tls: TlsSettings,
    /// `--peer-client-cert-file` and `--peer-client-key-file`: the pair that is shown to other members, if it is another one.
    pub peer_client_pair: (Option<PathBuf>, Option<PathBuf>),
    /// `--peer-skip-client-san-verification`: a member's certificate need not name that member.
    pub peer_skip_names: bool,
    /// `--peer-secret-file`: a secret that all members know.
    pub peer_secret_file: Option<PathBuf>,
    /// `--peer-allow-insecure`: members that have neither yet are spoken to all the same.
    pub peer_allow_insecure: bool,
    /// Versions of TLS and cipher suites.
    pub tls_protocol: TlsProtocol,
    /// `--auth-token`: what users get that log in: `simple`, or empty for nothing.
    pub auth_token: String,
    /// `--auth-token-ttl`: how long a simple token lives that is not used; zero for [`Config::TOKEN_TTL_DEFAULT`].
    pub auth_token_ttl: Duration,
    /// `--bcrypt-cost`: how long bcrypt takes for a password, as a power of two.
    pub bcrypt_cost: u32,
    /// `--audit-log` and `--audit-log-max-bytes`: where it is told who has asked for which change.
    pub audit_log: Option<AuditTarget>,
    /// `--self-signed-cert-validity`: for how many years a certificate counts that a member makes itself.
    pub self_signed_cert_validity: u32,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsDetail {
    /// Everything but what is next.
    Basic,
    /// Also a histogram of latencies for each gRPC method.
    Extensive,
}

/// What the dashboard may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UiMode {
    /// All that its user may.
    On,
    /// It shows; web pages may change nothing at this member.
    ReadOnly,
    /// It is not served.
    Off,
}

/// Whether the cluster starts for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// It does.
    New,
    /// It runs already.
    Existing,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: "default".into(),
            data_dir: "default.tenure".into(),
            wal_dir: None,
            listen_client_urls: vec!["http://127.0.0.1:2379".into()],
            advertise_client_urls: vec!["http://127.0.0.1:2379".into()],
            listen_peer_urls: vec!["http://127.0.0.1:2380".into()],
            initial_advertise_peer_urls: vec!["http://127.0.0.1:2380".into()],
            initial_cluster: "default=http://127.0.0.1:2380".into(),
            initial_cluster_state: ClusterState::New,
            initial_cluster_token: "tenure-cluster".into(),
            force_new_cluster: false,
            heartbeat_interval: Duration::from_millis(50),
            election_timeout: Duration::from_millis(500),
            snapshot_count: 100_000,
            max_txn_ops: 128,
            max_request_bytes: 1_572_864,
            pre_vote: true,
            grpc_keepalive_interval: Duration::from_secs(7200),
            grpc_keepalive_timeout: Duration::from_secs(20),
            watch_progress_notify_interval: Duration::from_secs(600),
            quota_backend_bytes: 0,
            auto_compaction: AutoCompaction::default(),
            corrupt_check_time: Duration::from_secs(60),
            warning_apply_duration: Duration::from_millis(100),
            metrics: MetricsDetail::Basic,
            listen_metrics_urls: vec![],
            cors: vec![],
            host_whitelist: vec![],
            ui: UiMode::On,
            lab: false,
            client_tls: TlsSettings::default(),
            peer_tls: TlsSettings::default(),
            peer_client_pair: (None, None),
            peer_skip_names: false,
            peer_secret_file: None,
            peer_allow_insecure: false,
            tls_protocol: TlsProtocol::default(),
            auth_token: "simple".into(),
            auth_token_ttl: Config::TOKEN_TTL_DEFAULT,
            bcrypt_cost: crate::auth::BCRYPT_COST,
            audit_log: None,
            self_signed_cert_validity: 1,
        }
    }
}

impl Config {
    /// The quota when none is set, as in etcd.
    pub const QUOTA_DEFAULT: u64 = 2 << 30;

    /// How long a simple token lives that is not used, when nothing is set, as in etcd.
    pub const TOKEN_TTL_DEFAULT: Duration = crate::auth::TOKEN_TTL;

    /// How long a simple token lives that is not used.
    pub fn token_ttl(&self) -> Duration {
        match self.auth_token_ttl {
            Duration::ZERO => Config::TOKEN_TTL_DEFAULT,
            ttl => ttl,
        }
    }

    /// How large the store may grow.
    pub fn quota(&self) -> u64 {
        match self.quota_backend_bytes {
            0 => Config::QUOTA_DEFAULT,
            bytes => bytes,
        }
    }
}
