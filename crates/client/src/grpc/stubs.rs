//! The generated clients, one module for each service, as they come.

#![allow(missing_docs, unreachable_pub, clippy::all)]

pub use self::etcdserverpb::{
    auth_client::AuthClient, cluster_client::ClusterClient, kv_client::KvClient,
    lease_client::LeaseClient, maintenance_client::MaintenanceClient, watch_client::WatchClient,
};
pub use self::tenure_v1::{
    elections_client::ElectionsClient, members_client::MembersClient,
    sessions_client::SessionsClient,
};
pub use self::v3electionpb::election_client::ElectionClient;
pub use self::v3lockpb::lock_client::LockClient;

mod etcdserverpb {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
}

mod v3electionpb {
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.rs"));
}

mod v3lockpb {
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.rs"));
}

mod tenure_v1 {
    include!(concat!(env!("OUT_DIR"), "/tenure.v1.rs"));
}
