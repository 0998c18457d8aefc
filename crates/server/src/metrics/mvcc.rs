//! `etcd_mvcc_*`: the store and its watchers.

use prometheus::{Histogram, IntCounter, IntGauge};
use tenure_replica::Status;

use super::make::{Buckets, Maker, raise};
use crate::grpc::db_bytes;

pub(crate) struct MvccMetrics {
    puts: IntCounter,
    deletes: IntCounter,
    ranges: IntCounter,
    ranges_debugging: IntCounter,
    txns: IntCounter,
    put_bytes: IntGauge,
    size: IntGauge,
    size_in_use: IntGauge,
    keys: IntGauge,
    revision: IntGauge,
    compacted: IntGauge,
    pub(crate) compacted_at: IntGauge,
    watchers: IntGauge,
    slow_watchers: IntGauge,
    pub(crate) streams: IntGauge,
    pub(crate) events: IntCounter,
    pub(crate) events_pending: IntGauge,
    pub(crate) hash: Histogram,
}

impl MvccMetrics {
    pub(super) fn new(make: &Maker<'_>) -> MvccMetrics {
        MvccMetrics {
            puts: make.counter("etcd_mvcc_put_total", "Puts, in transactions and out of them."),
            deletes: make.counter("etcd_mvcc_delete_total", "Deletions of keys or ranges."),
            ranges: make.counter("etcd_mvcc_range_total", "Ranges read."),
            ranges_debugging: make.counter(
                "etcd_debugging_mvcc_range_total",
                "The same as etcd_mvcc_range_total, under its old name.",
            ),
            txns: make.counter("etcd_mvcc_txn_total", "Transactions of more than one operation."),
            put_bytes: make.gauge(
                "etcd_debugging_mvcc_total_put_size_in_bytes",
                "Bytes of keys and values that puts outside of transactions brought.",
            ),
            size: make.gauge("etcd_mvcc_db_total_size_in_bytes", "Size of the store."),
            size_in_use: make.gauge(
                "etcd_mvcc_db_total_size_in_use_in_bytes",
                "Size of the store; what is freed is freed at once.",
            ),
            keys: make.gauge("etcd_debugging_mvcc_keys_total", "Keys that live."),
            revision: make.gauge("etcd_debugging_mvcc_current_revision", "The store's revision."),
            compacted: make.gauge(
                "etcd_debugging_mvcc_compact_revision",
                "The revision up to which history was dropped.",
            ),
            compacted_at: make.gauge(
                "etcd_debugging_mvcc_db_compaction_last",
                "When history was last dropped, in seconds since 1970.",
            ),
            watchers: make.gauge("etcd_debugging_mvcc_watcher_total", "Watches."),
            slow_watchers: make.gauge(
                "etcd_debugging_mvcc_slow_watcher_total",
                "Watches that have not been told everything yet.",
            ),
            streams: make.gauge("etcd_debugging_mvcc_watch_stream_total", "Streams of watches."),
            events: make.counter("etcd_debugging_mvcc_events_total", "Events told to watches."),
            events_pending: make.gauge(
                "etcd_debugging_mvcc_pending_events_total",
                "Events that wait until their client takes them.",
            ),
            hash: make.histogram(
                "etcd_mvcc_hash_rev_duration_seconds",
                "How long reckoning a hash of the store took.",
                Buckets { first: 0.01, count: 15 },
            ),
        }
    }

    pub(super) fn read(&self, status: &Status) {
        raise(&self.puts, status.counts.puts);
        raise(&self.deletes, status.counts.deletes);
        raise(&self.ranges, status.counts.ranges);
        raise(&self.ranges_debugging, status.counts.ranges);
        raise(&self.txns, status.counts.txns);
        self.put_bytes.set(status.counts.put_bytes as i64);
        self.size.set(db_bytes(status));
        self.size_in_use.set(db_bytes(status));
        self.keys.set(status.keys as i64);
        self.revision.set(status.revision.0);
        self.compacted.set(status.compacted.0);
        self.watchers.set(status.watchers.0 as i64);
        self.slow_watchers.set(status.watchers.1 as i64);
    }
}
