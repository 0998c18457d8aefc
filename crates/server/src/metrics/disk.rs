//! `etcd_disk_*` and `etcd_snap_*`: the log and the snapshots.

use std::time::Duration;

use prometheus::{Histogram, IntGauge};

use super::make::{Buckets, Maker};

pub(crate) struct DiskMetrics {
    fsync: Histogram,
    commit: Histogram,
    written: IntGauge,
    batch: Histogram,
    pub(crate) queued: IntGauge,
    snapshot: Histogram,
    snapshot_flush: Histogram,
}

/// etcd's buckets for what a disk does: 1 ms to 8 s.
const DISK: Buckets = Buckets { first: 0.001, count: 14 };

impl DiskMetrics {
    pub(super) fn new(make: &Maker<'_>) -> DiskMetrics {
        DiskMetrics {
            fsync: make.histogram(
                "etcd_disk_wal_fsync_duration_seconds",
                "How long flushing the log took.",
                DISK,
            ),
            commit: make.histogram(
                "etcd_disk_backend_commit_duration_seconds",
                "How long a batch took to be written and flushed. There is no backend beside the log.",
                DISK,
            ),
            written: make.gauge("etcd_disk_wal_write_bytes_total", "Bytes written to the log."),
            batch: make.histogram(
                "tenure_wal_batch_bytes",
                "Bytes written to the log at once.",
                Buckets { first: 64.0, count: 20 },
            ),
            queued: make.gauge("tenure_wal_queued_bytes", "Bytes that wait for the log's thread."),
            snapshot: make.histogram(
                "etcd_debugging_snap_save_total_duration_seconds",
                "How long writing a snapshot took, its pauses included.",
                DISK,
            ),
            snapshot_flush: make.histogram(
                "etcd_snap_fsync_duration_seconds",
                "How long completing and flushing a snapshot took.",
                DISK,
            ),
        }
    }

    pub(crate) fn persisted(&self, flushed_in: Option<Duration>, took: Duration, bytes: u64) {
        if let Some(flushed_in) = flushed_in {
            self.fsync.observe(flushed_in.as_secs_f64());
        }
        self.commit.observe(took.as_secs_f64());
        self.written.add(bytes as i64);
        self.batch.observe(bytes as f64);
    }

    /// How often the log was flushed, and how long that took on average.
    pub(crate) fn flushes(&self) -> (u64, Duration) {
        let (count, seconds) = (self.fsync.get_sample_count(), self.fsync.get_sample_sum());
        let mean = if count == 0 { 0.0 } else { seconds / count as f64 };
        (count, Duration::try_from_secs_f64(mean).unwrap_or_default())
    }

    pub(crate) fn snapshot_saved(&self, took: Duration, flushed_in: Duration) {
        self.snapshot.observe(took.as_secs_f64());
        self.snapshot_flush.observe(flushed_in.as_secs_f64());
    }
}
