//! What is measured, under etcd's names, so that its dashboards and alerts work.
//!
//! A file for each family. There are three ways for a number to get here. What the replica counts
//! comes with its [`Status`] and is read on each scrape. What happens in the core loop is noted by
//! its [`Meter`](crate::node) as it happens. What happens in the services (requests, bytes) is counted
//! there, on handles that were looked up beforehand. `docs/reference/metrics.md` has the list.

mod core;
mod disk;
mod election;
mod health;
mod lease;
mod make;
mod messages;
mod mvcc;
mod network;
mod process;
mod rpc;
mod server;

use std::{fmt, sync::Mutex};

use prometheus::{Registry, TextEncoder};
use tenure_replica::Status;

use self::make::Maker;
#[cfg(test)]
pub(crate) use self::rpc::all_methods;
pub(crate) use self::{
    core::{CoreMetrics, TermSeen},
    disk::DiskMetrics,
    election::{ELECTIONS_NAMED_MAX, ElectionMetrics},
    health::HealthMetrics,
    lease::LeaseMetrics,
    mvcc::MvccMetrics,
    network::NetworkMetrics,
    rpc::Counted,
    server::ServerMetrics,
};
use crate::Config;

/// Everything that is measured.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) core: CoreMetrics,
    pub(crate) disk: DiskMetrics,
    pub(crate) health: HealthMetrics,
    pub(crate) lease: LeaseMetrics,
    pub(crate) election: ElectionMetrics,
    pub(crate) mvcc: MvccMetrics,
    pub(crate) network: NetworkMetrics,
    pub(crate) rpc: rpc::RpcMetrics,
    pub(crate) server: ServerMetrics,
    process: process::ProcessMetrics,
    /// Scrapes take turns: the numbers of one answer belong together.
    asking: Mutex<()>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    pub(crate) fn new(config: &Config) -> Metrics {
        let registry = Registry::new();
        let make = Maker::new(&registry);
        Metrics {
            core: CoreMetrics::new(&make, config.metrics),
            disk: DiskMetrics::new(&make),
            health: HealthMetrics::new(&make),
            lease: LeaseMetrics::new(&make),
            election: ElectionMetrics::new(&make),
            mvcc: MvccMetrics::new(&make),
            network: NetworkMetrics::new(&make, config.member_id()),
            rpc: rpc::RpcMetrics::new(&make, config.metrics),
            server: ServerMetrics::new(&make, config),
            process: process::ProcessMetrics::new(&make),
            asking: Mutex::default(),
            registry,
        }
    }

    /// All of it, in Prometheus' text format.
    pub(crate) fn text(&self, status: &Status) -> String {
        let _turn = self.asking.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.server.read(status);
        self.core.read(status);
        self.mvcc.read(status);
        self.lease.read(status);
        self.process.read();
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }
}
