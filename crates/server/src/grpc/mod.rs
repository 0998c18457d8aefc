//! The etcd v3 API and our own over gRPC: a file per service, each a thin door to the node.

mod aside;
mod attachment;
mod auth;
mod bare;
mod cluster;
mod election;
mod kv;
mod lease;
mod lines;
mod lock;
mod maintenance;
mod means;
mod oversize;
mod places;
mod reflection;
mod reply;
mod sessions;
mod steps;
mod stubs;
mod turn;
mod watch;
mod words;

use std::time::Duration;

use tonic::service::Routes;

use self::stubs::{
    auth_server::AuthServer, cluster_server::ClusterServer, election_server::ElectionServer,
    kv_server::KvServer, lease_server::LeaseServer, lines_server::LinesServer,
    lock_server::LockServer, maintenance_server::MaintenanceServer,
    sessions_server::SessionsServer,
};
pub use self::{
    bare::{Bare, Observed, Responses},
    means::Means,
};
pub(crate) use self::{oversize::in_words_of_grpc_go, reply::refuse};
use crate::node::Door;

/// The version of etcd whose API this is; clients decide by it what they may use.
pub const ETCD_VERSION: &str = "3.5.0";

/// What the services need beside the node.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest request.
    pub request_bytes_max: usize,
    /// The most operations in a transaction.
    pub txn_ops_max: usize,
    /// A stream that asked for it ends when there has been no raft leader for so long.
    pub leaderless_max: Duration,
    /// Whether other members could reach this one.
    pub can_grow: bool,
}

/// gRPC's own limit lies above ours, so that a request a little too large gets etcd's answer.
pub(crate) const REQUEST_OVERHEAD_BYTES: usize = 512 << 10;

/// All services of this server.
pub fn routes(door: &Door, limits: Limits) -> Routes {
    let frame_max = limits.request_bytes_max + REQUEST_OVERHEAD_BYTES;
    let places = places::Places::new(door.clone(), limits);
    let (reporter, health) = tonic_health::server::health_reporter();
    // The whole server is one service to its health checkers.
    drop(reporter);
    Routes::new(health)
        .add_service(
            KvServer::new(kv::Kv::new(door.clone(), limits)).max_decoding_message_size(frame_max),
        )
        .add_service(watch::WatchService::new(door.clone(), limits))
        .add_service(
            LeaseServer::new(lease::Lease::new(door.clone(), limits))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            ClusterServer::new(cluster::Cluster::new(door.clone(), limits))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            MaintenanceServer::new(maintenance::Maintenance::new(door.clone()))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            AuthServer::new(auth::Auth::new(door.clone())).max_decoding_message_size(frame_max),
        )
        .add_service(
            ElectionServer::new(election::Election::new(door.clone(), places.clone(), limits))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            LockServer::new(lock::Lock::new(door.clone(), places, limits))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            SessionsServer::new(sessions::Sessions::new(door.clone()))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            LinesServer::new(lines::Lines::new(door.clone(), Some(limits)))
                .max_decoding_message_size(frame_max),
        )
        .add_service(reflection::v1())
        .add_service(reflection::v1alpha())
}
