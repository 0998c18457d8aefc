//! The etcd v3 API and our own over gRPC: a file per service, each a thin layer over the node.

mod attachment;
mod auth;
mod blocking;
mod candidates;
mod cluster;
mod convert;
mod elections;
mod env;
mod follow;
mod in_process;
mod kv;
mod lease;
mod maintenance;
mod members;
mod oversize;
mod overview;
mod reflection;
mod reply;
mod sessions;
mod steps;
mod stubs;
mod turn;
mod v3election;
mod v3lock;
mod watch;

use std::time::Duration;

use tonic::service::Routes;

use self::stubs::{
    auth_server::AuthServer, cluster_server::ClusterServer, election_server::ElectionServer,
    elections_server::ElectionsServer, kv_server::KvServer, lease_server::LeaseServer,
    lock_server::LockServer, maintenance_server::MaintenanceServer, members_server::MembersServer,
    sessions_server::SessionsServer,
};
pub(crate) use self::{
    blocking::BlockingPool, maintenance::db_bytes, oversize::in_words_of_grpc_go, reply::refuse,
};
pub use self::{
    env::Env,
    in_process::{InProcessService, Observed, Responses},
};
use crate::{
    auth::{Passwords, TokenKind},
    node::NodeHandle,
};

/// The version of etcd whose API this is; clients decide by it what they may use.
pub const ETCD_VERSION: &str = "3.5.0";

/// What the services need beside the node.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// The largest request.
    pub request_bytes_max: usize,
    /// The most operations in a transaction.
    pub txn_ops_max: usize,
    /// A stream that asked for it ends when there has been no raft leader for so long.
    pub leaderless_max: Duration,
}

/// gRPC's own limit lies above ours, so that a request a little too large gets etcd's answer.
pub(crate) const REQUEST_OVERHEAD_BYTES: usize = 512 << 10;

/// All services of this server.
pub(crate) fn routes(
    node: &NodeHandle,
    limits: RequestLimits,
    passwords: Passwords,
    tokens: TokenKind,
) -> Routes {
    let frame_max = limits.request_bytes_max + REQUEST_OVERHEAD_BYTES;
    let candidates = candidates::Candidates::new(node.clone(), limits);
    let (reporter, health) = tonic_health::server::health_reporter();
    // The whole server is one service to its health checkers.
    drop(reporter);
    Routes::new(health)
        .add_service(
            KvServer::new(kv::Kv::new(node.clone(), limits)).max_decoding_message_size(frame_max),
        )
        .add_service(watch::WatchService::new(node.clone(), limits))
        .add_service(
            LeaseServer::new(lease::Lease::new(node.clone(), limits))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            ClusterServer::new(cluster::Cluster::new(node.clone()))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            MaintenanceServer::new(maintenance::Maintenance::new(node.clone()))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            AuthServer::new(auth::Auth::new(node.clone(), passwords, tokens))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            ElectionServer::new(v3election::Election::new(
                node.clone(),
                candidates.clone(),
                limits,
            ))
            .max_decoding_message_size(frame_max),
        )
        .add_service(
            LockServer::new(v3lock::Lock::new(node.clone(), candidates, limits))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            SessionsServer::new(sessions::Sessions::new(node.clone()))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            ElectionsServer::new(elections::Elections::new(node.clone(), Some(limits)))
                .max_decoding_message_size(frame_max),
        )
        .add_service(
            MembersServer::new(members::Members::new(node.clone()))
                .max_decoding_message_size(frame_max),
        )
        .add_service(reflection::v1())
        .add_service(reflection::v1alpha())
}
