//! `etcd_server_*`: the raft leader, and how proposals fare.

use prometheus::{IntCounter, IntCounterVec, IntGauge};
use tenure_replica::RaftRole;
use tonic::Status;

use super::make::{Maker, raise};
use crate::{Config, grpc::ETCD_VERSION};

pub(crate) struct ServerMetrics {
    has_leader: IntGauge,
    is_leader: IntGauge,
    is_learner: IntGauge,
    committed: IntGauge,
    applied: IntGauge,
    pending: IntGauge,
    failed: IntCounter,
    reads_failed: IntCounter,
    slow_reads: IntCounter,
    pub(crate) leader_changes: IntCounter,
    pub(crate) slow_applies: IntCounter,
    pub(crate) heartbeat_failures: IntCounter,
    auth_revision: IntGauge,
    promotions: IntCounter,
    promotions_failed: IntCounterVec,
}

impl ServerMetrics {
    pub(super) fn new(make: &Maker<'_>, config: &Config) -> ServerMetrics {
        let me = config.member_id().to_string();
        make.fact("etcd_server_id", "This member's id, as the label.", "server_id", &me);
        let version = "The version of the etcd API that is served, as the label.";
        make.fact("etcd_server_version", version, "server_version", ETCD_VERSION);
        let minor = ETCD_VERSION.rsplit_once('.').map_or(ETCD_VERSION, |(minor, _)| minor);
        let version = "The version of the etcd API that all members serve, as the label.";
        make.fact("etcd_cluster_version", version, "cluster_version", minor);
        let quota = "How large the store may grow, in bytes.";
        make.gauge("etcd_server_quota_backend_bytes", quota).set(config.quota() as i64);
        ServerMetrics {
            has_leader: make.gauge("etcd_server_has_leader", "Whether this member knows a raft leader."),
            is_leader: make.gauge("etcd_server_is_leader", "Whether this member is the raft leader."),
            is_learner: make.gauge("etcd_server_is_learner", "Whether this member has no vote."),
            committed: make.gauge(
                "etcd_server_proposals_committed_total",
                "The index up to which the log is committed.",
            ),
            applied: make.gauge(
                "etcd_server_proposals_applied_total",
                "The index up to which the log is applied.",
            ),
            pending: make.gauge(
                "etcd_server_proposals_pending",
                "Writes of this member's clients that wait for their outcome.",
            ),
            failed: make.counter(
                "etcd_server_proposals_failed_total",
                "Writes of this member's clients that failed or have an unknown outcome.",
            ),
            reads_failed: make.counter(
                "etcd_server_read_indexes_failed_total",
                "Linearizable reads that were given up on.",
            ),
            slow_reads: make.counter(
                "etcd_server_slow_read_indexes_total",
                "Rounds of linearizable reads that the raft leader did not answer in time.",
            ),
            leader_changes: make.counter(
                "etcd_server_leader_changes_seen_total",
                "How often this member has seen a raft leader take over.",
            ),
            slow_applies: make.counter(
                "etcd_server_slow_apply_total",
                "Rounds that applied entries and took longer than --warning-apply-duration.",
            ),
            heartbeat_failures: make.counter(
                "etcd_server_heartbeat_send_failures_total",
                "How often the raft leader was too late to show itself: it did not run, or is overloaded.",
            ),
            auth_revision: make.gauge(
                "etcd_debugging_auth_revision",
                "How many changes of users and roles there were, counted from 1.",
            ),
            promotions: make.counter(
                "etcd_server_learner_promote_successes",
                "Learners that got a vote because this member was asked for it.",
            ),
            promotions_failed: make.counters(
                "etcd_server_learner_promote_failures",
                "Learners that did not though this member was asked for it, and why.",
                &["Reason"],
            ),
        }
    }

    /// The outcome of a request for a learner's vote. The reason for a failure is one of a few texts: those of our refusals.
    pub(crate) fn promoted<T>(&self, outcome: &Result<T, Status>) {
        match outcome {
            Ok(_) => self.promotions.inc(),
            Err(refused) => self.promotions_failed.with_label_values(&[refused.message()]).inc(),
        }
    }

    pub(super) fn read(&self, status: &tenure_replica::Status) {
        self.has_leader.set(status.leader.is_some().into());
        self.is_leader.set((status.role == RaftRole::Leader).into());
        self.is_learner.set(status.is_learner.into());
        self.committed.set(status.committed as i64);
        self.applied.set(status.applied as i64);
        self.auth_revision.set(status.auth.1 as i64);
        self.pending.set(status.writes_pending as i64);
        raise(&self.failed, status.counts.writes_failed);
        raise(&self.reads_failed, status.counts.reads_failed);
        raise(&self.slow_reads, status.counts.read_rounds_lost);
    }
}
