//! `etcd_server_health_*`: what was answered to `/health`.

use prometheus::IntCounter;

use super::make::Maker;

pub(crate) struct HealthMetrics {
    success: IntCounter,
    failures: IntCounter,
}

impl HealthMetrics {
    pub(super) fn new(make: &Maker<'_>) -> HealthMetrics {
        HealthMetrics {
            success: make.counter("etcd_server_health_success", "Health checks that were passed."),
            failures: make.counter("etcd_server_health_failures", "Health checks that failed."),
        }
    }

    pub(crate) fn answered(&self, healthy: bool) {
        if healthy { &self.success } else { &self.failures }.inc();
    }
}
