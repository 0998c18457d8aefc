//! Flags of etcd's that have no row in our table, and why.
//!
//! They are understood as flags, in the environment and in the file, so that a command line or a
//! file made for etcd works here. What would make this server something else than its owner asked
//! for (in the clear instead of encrypted, another cluster, a proxy) is refused.

/// A flag of etcd's that does nothing here.
#[derive(Debug)]
pub(super) struct Foreign {
    pub(super) flag: &'static str,
    pub(super) fate: Fate,
    pub(super) why: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// Named in a warning at start, and otherwise left alone.
    Ignored,
    /// Refused, except with the values that ask for nothing.
    Refused { unless: &'static [&'static str] },
}

const fn ignored(flag: &'static str, why: &'static str) -> Foreign {
    Foreign { flag, fate: Fate::Ignored, why }
}

const fn refused(flag: &'static str, why: &'static str) -> Foreign {
    Foreign { flag, fate: Fate::Refused { unless: &["", "false"] }, why }
}

const DISCOVERY: &str = "members are not discovered here; name them with --initial-cluster";
const V2: &str = "the v2 API is not served";
const PROXY: &str = "there is no v2 proxy";
const NO_BACKEND: &str = "there is no bbolt backend; the data is in memory and in the log";
const TCP: &str = "between members, the kernel notices after 2 s that nothing is acknowledged";
const FILES: &str = "files are deleted as soon as nothing needs them";
const ALWAYS: &str = "it is always so here";

/// All of them, in etcd's order.
pub(super) const FOREIGN: &[Foreign] = &[
    ignored("initial-election-tick-advance", "the first election does not wait for a timeout"),
    ignored("strict-reconfig-check", ALWAYS),
    ignored("max-learners", "one learner at a time, the same for all members"),
    ignored("experimental-max-learners", "one learner at a time, the same for all members"),
    ignored("max-snapshots", FILES),
    ignored("max-wals", FILES),
    ignored("backend-bbolt-freelist-type", NO_BACKEND),
    ignored("backend-batch-interval", NO_BACKEND),
    ignored("backend-batch-limit", NO_BACKEND),
    ignored("grpc-keepalive-min-time", "a client may ping as often as it likes"),
    ignored("max-concurrent-streams", "one connection may have 100000 requests under way"),
    ignored("socket-reuse-port", "a port belongs to one process"),
    ignored("socket-reuse-address", ALWAYS),
    ignored("raft-read-timeout", TCP),
    ignored("raft-write-timeout", TCP),
    Foreign {
        flag: "listen-client-http-urls",
        fate: Fate::Refused { unless: &[""] },
        why: "HTTP and gRPC share the ports of --listen-client-urls",
    },
    refused("discovery", DISCOVERY),
    ignored("discovery-fallback", DISCOVERY),
    ignored("discovery-proxy", DISCOVERY),
    refused("discovery-srv", DISCOVERY),
    ignored("discovery-srv-name", DISCOVERY),
    refused("discovery-token", DISCOVERY),
    refused("discovery-endpoints", DISCOVERY),
    ignored("discovery-dial-timeout", DISCOVERY),
    ignored("discovery-request-timeout", DISCOVERY),
    ignored("discovery-keepalive-time", DISCOVERY),
    ignored("discovery-keepalive-timeout", DISCOVERY),
    ignored("discovery-insecure-transport", DISCOVERY),
    ignored("discovery-insecure-skip-tls-verify", DISCOVERY),
    ignored("discovery-cert", DISCOVERY),
    ignored("discovery-key", DISCOVERY),
    ignored("discovery-cacert", DISCOVERY),
    ignored("discovery-user", DISCOVERY),
    ignored("discovery-password", DISCOVERY),
    ignored("enable-v2", V2),
    ignored("v2-deprecation", V2),
    ignored("enable-grpc-gateway", "what is served over HTTP cannot be switched off"),
    ignored("client-cert-file", "a member does not call its own client port"),
    ignored("client-key-file", "a member does not call its own client port"),
    ignored("enable-pprof", "there is no Go runtime to look into"),
    ignored("enable-log-rotation", "logs are rotated by whoever reads them"),
    ignored("log-rotation-config-json", "logs are rotated by whoever reads them"),
    Foreign { flag: "proxy", fate: Fate::Refused { unless: &["off", ""] }, why: PROXY },
    ignored("proxy-failure-wait", PROXY),
    ignored("proxy-refresh-interval", PROXY),
    ignored("proxy-dial-timeout", PROXY),
    ignored("proxy-write-timeout", PROXY),
    ignored("proxy-read-timeout", PROXY),
    ignored("experimental-initial-corrupt-check", "what is on the disk is always checked at start"),
    ignored("experimental-enable-v2v3", V2),
    ignored(
        "experimental-enable-lease-checkpoint",
        "leases outlive a change of the raft leader anyway",
    ),
    ignored(
        "experimental-enable-lease-checkpoint-persist",
        "leases outlive a change of the raft leader anyway",
    ),
    ignored("experimental-compaction-batch-limit", "compaction goes in steps of a fixed size"),
    ignored("compaction-batch-limit", "compaction goes in steps of a fixed size"),
    ignored("experimental-compaction-sleep-interval", "compaction goes in steps of a fixed size"),
    ignored("compaction-sleep-interval", "compaction goes in steps of a fixed size"),
    ignored("experimental-txn-mode-write-with-shared-buffer", NO_BACKEND),
    ignored("experimental-bootstrap-defrag-threshold-megabytes", NO_BACKEND),
    ignored("bootstrap-defrag-threshold-megabytes", NO_BACKEND),
    ignored("experimental-backend-bbolt-freelist-type", NO_BACKEND),
    ignored("experimental-memory-mlock", "memory is not locked"),
    ignored("memory-mlock", "memory is not locked"),
    ignored("experimental-warning-unary-request-duration", "latencies are in /metrics"),
    ignored("warning-unary-request-duration", "latencies are in /metrics"),
    ignored("experimental-wait-cluster-ready-timeout", "the ports are open from the start"),
    ignored("experimental-compact-hash-check-enabled", "see --corrupt-check-time"),
    ignored("compact-hash-check-enabled", "see --corrupt-check-time"),
    ignored("experimental-compact-hash-check-time", "see --corrupt-check-time"),
    ignored("compact-hash-check-time", "see --corrupt-check-time"),
    ignored("experimental-stop-grpc-service-on-defrag", NO_BACKEND),
    ignored("stop-grpc-service-on-defrag", NO_BACKEND),
    ignored("experimental-snapshot-catchup-entries", "the log's tail is bounded in bytes"),
    ignored("snapshot-catchup-entries", "the log's tail is bounded in bytes"),
    ignored("experimental-downgrade-check-time", "there are no downgrades"),
    ignored("downgrade-check-time", "there are no downgrades"),
    ignored("feature-gates", "no feature has a gate here"),
    refused("unsafe-no-fsync", "a write that is not flushed is not a write; there is no such mode"),
];
