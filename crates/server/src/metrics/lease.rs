//! `etcd_debugging_lease_*`, `tenure_unowned_leases_total`: leases come and go.

use prometheus::{Histogram, IntCounter};
use tenure_replica::Status;

use super::make::{Buckets, Maker, raise};

pub(crate) struct LeaseMetrics {
    granted: IntCounter,
    renewed: IntCounter,
    ended: IntCounter,
    pub(crate) ttls: Histogram,
    pub(crate) expired: IntCounter,
    pub(crate) unowned: IntCounter,
}

impl LeaseMetrics {
    pub(super) fn new(make: &Maker<'_>) -> LeaseMetrics {
        LeaseMetrics {
            granted: make.counter("etcd_debugging_lease_granted_total", "Leases granted."),
            renewed: make.counter("etcd_debugging_lease_renewed_total", "Renewals of leases."),
            ended: make.counter(
                "etcd_debugging_lease_revoked_total",
                "Leases that ended, revoked or expired.",
            ),
            ttls: make.histogram(
                "etcd_debugging_lease_ttl_total",
                "The time to live of leases granted, in seconds.",
                Buckets { first: 1.0, count: 24 },
            ),
            expired: make.counter(
                "etcd_debugging_server_lease_expired_total",
                "Leases that this member, as the raft leader, found to have run out.",
            ),
            unowned: make.counter(
                "tenure_unowned_leases_total",
                "Locks and campaigns without a lease of their own. Nobody renews what they hold: it ends after 60 s.",
            ),
        }
    }

    pub(super) fn read(&self, status: &Status) {
        raise(&self.granted, status.counts.leases_granted);
        raise(&self.renewed, status.counts.leases_renewed);
        raise(&self.ended, status.counts.leases_ended);
    }
}
