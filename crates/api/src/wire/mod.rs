//! The etcd v3 API and our own as they go over the wire, and their translation from and to the shared words.
//!
//! The modules named after protobuf packages are generated from `proto/`; names and numbers there
//! are the contract with every etcd client. [`convert`] is the only way between these types and the
//! words: what has passed it satisfies every rule that etcd checks before it looks at the store.

pub mod convert;
mod secrets;

/// All of `proto/` as an encoded `FileDescriptorSet`: for code that reads messages by description,
/// such as the JSON gateway and server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The trailer of a refusal by the rules of `tenure.v1`, where there is no stream to be answered on: it has the
/// name of the [`RefusalKind`](tenure::v1::RefusalKind), `STOCK_CANDIDATE_AHEAD` say. Other failures have none.
pub const REFUSAL_TRAILER: &str = "tenure-refusal";

/// Keys, watches, leases, members, maintenance and users: the services of etcd itself.
#[allow(missing_docs, clippy::all)]
pub mod etcdserverpb {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
}

/// Keys with their history numbers, and events.
#[allow(missing_docs, clippy::all)]
pub mod mvccpb {
    include!(concat!(env!("OUT_DIR"), "/mvccpb.rs"));
}

/// Users, roles and permissions.
#[allow(missing_docs, clippy::all)]
pub mod authpb {
    include!(concat!(env!("OUT_DIR"), "/authpb.rs"));
}

/// Elections decided by the server.
#[allow(missing_docs, clippy::all)]
pub mod v3electionpb {
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.rs"));
}

/// Locks decided by the server.
#[allow(missing_docs, clippy::all)]
pub mod v3lockpb {
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.rs"));
}

/// Sessions and elections: elections and locks with all that etcd's services cannot say.
pub mod tenure {
    /// The first version of them.
    #[allow(missing_docs, clippy::all)]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/tenure.v1.rs"));
    }
}

/// gRPC's health check.
#[allow(missing_docs, clippy::all)]
pub mod health {
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
}
