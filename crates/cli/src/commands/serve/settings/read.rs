//! From text to settings that a server can be started with.

use std::{path::PathBuf, str::FromStr, time::Duration};

use tenure::api::size::size;
use tenure_server::{
    audit::{AuditTarget, FILE_BYTES},
    config::{
        AutoCompaction, ClusterState, Config, MetricsDetail, Problem, TlsProtocol, TlsSettings,
        UiMode,
    },
    traces::{self, Collector},
};
use tracing_subscriber::EnvFilter;

use super::{Given, Origin, Settings, table};
use crate::args::duration;

/// Everything `tenure serve` runs by.
#[derive(Clone, Debug)]
pub(in crate::commands::serve) struct Serving {
    pub(in crate::commands::serve) config: Config,
    pub(in crate::commands::serve) logging: Logging,
    pub(in crate::commands::serve) collector: Option<Collector>,
}

/// What is logged, how, and where to.
#[derive(Clone, Debug)]
pub(in crate::commands::serve) struct Logging {
    pub(in crate::commands::serve) filter: String,
    pub(in crate::commands::serve) format: LogFormat,
    pub(in crate::commands::serve) outputs: Vec<String>,
}

/// The shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::serve) enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Console,
}

impl Settings {
    /// The settings to run by. If anything is wrong with them, `problems` says what: all of it.
    pub(in crate::commands::serve) fn read(&mut self) -> Serving {
        self.read_by_a_build(traces::ABLE)
    }

    /// The same, by a build that can send spans or cannot.
    pub(super) fn read_by_a_build(&mut self, can_trace: bool) -> Serving {
        let mut read = Reader { settings: self, problems: vec![] };
        let config = read.config();
        let logging = read.logging();
        let collector = read.collector(can_trace);
        let mut problems = read.problems;
        let broken = config.problems();
        let is_given = |flag: &str| self.given.contains_key(flag);
        for broken in broken.iter().filter(|one| {
            // A default that follows another setting is wrong only because that one is.
            let same = |other: &&Problem| other.rule == one.rule && is_given(other.flag);
            is_given(one.flag) || !broken.iter().any(|other| same(&other))
        }) {
            problems.push(format!("{}: {}", self.place(broken.flag), broken.rule));
        }
        self.problems.extend(problems);
        Serving { config, logging, collector }
    }
}

/// Reads values that can be wrong, and collects what is.
struct Reader<'a> {
    settings: &'a Settings,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn config(&mut self) -> Config {
        let default = Config::default();
        Config {
            name: self.text("name"),
            data_dir: self.text("data-dir").into(),
            wal_dir: self.path("wal-dir"),
            listen_client_urls: self.list("listen-client-urls"),
            advertise_client_urls: self.list("advertise-client-urls"),
            listen_peer_urls: self.list("listen-peer-urls"),
            initial_advertise_peer_urls: self.list("initial-advertise-peer-urls"),
            initial_cluster: self.text("initial-cluster"),
            initial_cluster_state: self.one_of(
                "initial-cluster-state",
                &[("new", ClusterState::New), ("existing", ClusterState::Existing)],
            ),
            initial_cluster_token: self.text("initial-cluster-token"),
            force_new_cluster: self.switch("force-new-cluster"),
            heartbeat_interval: self
                .millis("heartbeat-interval")
                .unwrap_or(default.heartbeat_interval),
            election_timeout: self.millis("election-timeout").unwrap_or(default.election_timeout),
            snapshot_count: self.number("snapshot-count").unwrap_or(default.snapshot_count),
            max_txn_ops: self.number("max-txn-ops").unwrap_or(default.max_txn_ops),
            max_request_bytes: self
                .size("max-request-bytes")
                .and_then(|bytes| usize::try_from(bytes).ok())
                .unwrap_or(default.max_request_bytes),
            pre_vote: self.switch("pre-vote"),
            grpc_keepalive_interval: self
                .duration("grpc-keepalive-interval")
                .unwrap_or(default.grpc_keepalive_interval),
            grpc_keepalive_timeout: self
                .duration("grpc-keepalive-timeout")
                .unwrap_or(default.grpc_keepalive_timeout),
            watch_progress_notify_interval: self
                .duration("watch-progress-notify-interval")
                .unwrap_or(default.watch_progress_notify_interval),
            quota_backend_bytes: self.quota(),
            auto_compaction: self.auto_compaction().unwrap_or(default.auto_compaction),
            corrupt_check_time: self
                .duration("corrupt-check-time")
                .unwrap_or(default.corrupt_check_time),
            warning_apply_duration: self
                .duration("warning-apply-duration")
                .unwrap_or(default.warning_apply_duration),
            metrics: self.one_of(
                "metrics",
                &[("basic", MetricsDetail::Basic), ("extensive", MetricsDetail::Extensive)],
            ),
            listen_metrics_urls: self.list("listen-metrics-urls"),
            cors: self.list("cors"),
            host_whitelist: self.list("host-whitelist"),
            ui: self.one_of(
                "ui",
                &[("on", UiMode::On), ("read-only", UiMode::ReadOnly), ("off", UiMode::Off)],
            ),
            lab: self.switch("lab"),
            client_tls: TlsSettings {
                cert_file: self.path("cert-file"),
                key_file: self.path("key-file"),
                client_cert_auth: self.switch("client-cert-auth"),
                trusted_ca_file: self.path("trusted-ca-file"),
                crl_file: self.path("client-crl-file"),
                allowed_hostnames: self.list("client-cert-allowed-hostname"),
                allowed_cns: self.list("client-cert-allowed-cn"),
                auto: self.switch("auto-tls"),
            },
            peer_tls: TlsSettings {
                cert_file: self.path("peer-cert-file"),
                key_file: self.path("peer-key-file"),
                client_cert_auth: self.switch("peer-client-cert-auth"),
                trusted_ca_file: self.path("peer-trusted-ca-file"),
                crl_file: self.path("peer-crl-file"),
                allowed_hostnames: self.list("peer-cert-allowed-hostname"),
                allowed_cns: self.list("peer-cert-allowed-cn"),
                auto: self.switch("peer-auto-tls"),
            },
            peer_client_pair: (
                self.path("peer-client-cert-file"),
                self.path("peer-client-key-file"),
            ),
            peer_skip_names: self.switch("peer-skip-client-san-verification"),
            peer_secret_file: self.path("peer-secret-file"),
            peer_allow_insecure: self.switch("peer-allow-insecure"),
            tls_protocol: TlsProtocol {
                min_version: self.text("tls-min-version"),
                max_version: self.text("tls-max-version"),
                cipher_suites: self.list("cipher-suites"),
            },
            auth_token: self.text("auth-token"),
            auth_token_ttl: self.seconds("auth-token-ttl").unwrap_or(default.auth_token_ttl),
            audit_log: self.audit_log(),
            bcrypt_cost: self.number("bcrypt-cost").unwrap_or(default.bcrypt_cost),
            self_signed_cert_validity: self
                .number("self-signed-cert-validity")
                .unwrap_or(default.self_signed_cert_validity),
        }
    }

    fn audit_log(&mut self) -> Option<AuditTarget> {
        let bytes_max = self.size("audit-log-max-bytes").filter(|bytes| *bytes > 0);
        match &self.text("audit-log")[..] {
            "" => None,
            "stderr" => Some(AuditTarget::Stderr),
            file => Some(AuditTarget::File(file.into(), bytes_max.unwrap_or(FILE_BYTES))),
        }
    }

    fn logging(&mut self) -> Logging {
        self.one_of("logger", &[("zap", ())]);
        Logging {
            filter: self.log_filter(),
            format: self.one_of(
                "log-format",
                &[("json", LogFormat::Json), ("console", LogFormat::Console)],
            ),
            outputs: self.list("log-outputs"),
        }
    }

    /// One of etcd's levels, or directives as in `info,tenure_server::peer=debug`.
    fn log_filter(&mut self) -> String {
        const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
        let text = self.text("log-level");
        match &text[..] {
            // What etcd cannot survive is an error here, too.
            "panic" | "dpanic" | "fatal" => "error".to_owned(),
            level if LEVELS.contains(&level) => text,
            directives if directives.contains('=') && EnvFilter::try_new(directives).is_ok() => {
                text
            }
            _ => {
                self.wrong("log-level", format!("{text:?} must be one of {}", LEVELS.join(", ")));
                "info".to_owned()
            }
        }
    }

    fn collector(&mut self, can_trace: bool) -> Option<Collector> {
        if !self.switch("enable-distributed-tracing") {
            return None;
        }
        if !can_trace {
            let rule = "this build cannot do it; build with: cargo build --release --features otel";
            self.wrong("enable-distributed-tracing", rule.to_owned());
        }
        const MILLION: u64 = 1_000_000;
        let per_million = self.number("distributed-tracing-sampling-rate").unwrap_or(MILLION);
        if per_million > MILLION {
            self.wrong("distributed-tracing-sampling-rate", format!("must be 0 to {MILLION}"));
        }
        Some(Collector {
            address: self.text("distributed-tracing-address"),
            service_name: self.text("distributed-tracing-service-name"),
            instance_id: self.text("distributed-tracing-instance-id"),
            per_million,
        })
    }

    /// etcd takes a negative quota for none at all.
    fn quota(&mut self) -> u64 {
        const QUOTA: &str = "quota-backend-bytes";
        const NO_LIMIT: u64 = i64::MAX as u64;
        if self.text(QUOTA).parse().is_ok_and(|bytes: i64| bytes < 0) {
            return NO_LIMIT;
        }
        self.size(QUOTA).unwrap_or_default()
    }

    fn auto_compaction(&mut self) -> Option<AutoCompaction> {
        const RETENTION: &str = "auto-compaction-retention";
        const HOUR: u64 = 3600;
        let revisions =
            self.one_of("auto-compaction-mode", &[("periodic", false), ("revision", true)]);
        let text = self.text(RETENTION);
        let bare: Option<u64> = text.parse().ok();
        match bare {
            Some(0) => Some(AutoCompaction::Off),
            Some(number) if revisions => Some(AutoCompaction::Revisions(number)),
            Some(hours) => {
                Some(AutoCompaction::Periodic(Duration::from_secs(hours.saturating_mul(HOUR))))
            }
            None if revisions => {
                self.wrong(RETENTION, format!("{text:?} must be a number of revisions"));
                None
            }
            None => match duration(&text) {
                Ok(Duration::ZERO) => Some(AutoCompaction::Off),
                Ok(kept) => Some(AutoCompaction::Periodic(kept)),
                Err(rule) => {
                    self.wrong(RETENTION, rule);
                    None
                }
            },
        }
    }

    fn given(&self, flag: &str) -> Given {
        self.settings.effective(table::find(flag))
    }

    fn text(&self, flag: &str) -> String {
        self.given(flag).text
    }

    fn path(&self, flag: &str) -> Option<PathBuf> {
        Some(self.text(flag)).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    fn list(&self, flag: &str) -> Vec<String> {
        let text = self.text(flag);
        text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
    }

    fn number<T: FromStr>(&mut self, flag: &str) -> Option<T> {
        let text = self.text(flag);
        let number = text.parse().ok();
        if number.is_none() {
            self.wrong(flag, format!("{text:?} is not a number it can take"));
        }
        number
    }

    /// Bytes, or a size with its unit.
    fn size(&mut self, flag: &str) -> Option<u64> {
        size(&self.text(flag)).map_err(|rule| self.wrong(flag, rule)).ok()
    }

    /// A number is milliseconds, as in etcd.
    fn millis(&mut self, flag: &str) -> Option<Duration> {
        let text = self.text(flag);
        match text.parse() {
            Ok(millis) => Some(Duration::from_millis(millis)),
            Err(_) => duration(&text)
                .map_err(|_| {
                    let rule =
                        format!("{text:?} must be milliseconds, or a duration such as 100ms or 1s");
                    self.wrong(flag, rule);
                })
                .ok(),
        }
    }

    fn seconds(&mut self, flag: &str) -> Option<Duration> {
        let text = self.text(flag);
        let seconds = text.parse().map(Duration::from_secs).or_else(|_| duration(&text));
        seconds
            .map_err(|_| {
                self.wrong(flag, format!("{text:?} must be seconds, or a duration such as 5m"))
            })
            .ok()
    }

    fn switch(&mut self, flag: &str) -> bool {
        let words = [("true", true), ("false", false), ("1", true), ("0", false)];
        let text = self.text(flag).to_lowercase();
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, on)) => *on,
            None => {
                self.wrong(flag, format!("{text:?} must be true or false"));
                false
            }
        }
    }

    /// One of some words; the first of them if it is none.
    fn one_of<T: Copy>(&mut self, flag: &str, words: &[(&str, T)]) -> T {
        let text = self.text(flag);
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meant)) => *meant,
            None => {
                let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                self.wrong(flag, format!("{text:?} must be {}", known.join(" or ")));
                words[0].1
            }
        }
    }

    /// In a file made for etcd, a duration is a number of nanoseconds.
    fn duration(&mut self, flag: &str) -> Option<Duration> {
        let given = self.given(flag);
        let from_file = matches!(given.origin, Origin::File { .. });
        let read = match given.text.parse() {
            Ok(nanos) if from_file => Ok(Duration::from_nanos(nanos)),
            _ => duration(&given.text),
        };
        read.map_err(|rule| self.wrong(flag, rule)).ok()
    }

    fn wrong(&mut self, flag: &str, rule: String) {
        self.problems.push(format!("{}: {rule}", self.settings.place(flag)));
    }
}
