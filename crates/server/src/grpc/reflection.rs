//! Reflection: the services describe themselves, so that tools such as grpcurl need no .proto files.

use tenure_api::wire::DESCRIPTORS;
use tonic_reflection::server::{
    Builder,
    v1::{ServerReflection, ServerReflectionServer},
    v1alpha::{
        ServerReflection as AlphaReflection, ServerReflectionServer as AlphaReflectionServer,
    },
};

/// The services that reflection lists.
const SERVED: [&str; 12] = [
    "etcdserverpb.KV",
    "etcdserverpb.Watch",
    "etcdserverpb.Lease",
    "etcdserverpb.Cluster",
    "etcdserverpb.Maintenance",
    "etcdserverpb.Auth",
    "v3electionpb.Election",
    "v3lockpb.Lock",
    "tenure.v1.Sessions",
    "tenure.v1.Elections",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
];

fn described() -> Builder<'static> {
    let builder = Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS);
    SERVED.iter().fold(builder, |builder, name| builder.with_service_name(*name))
}

/// The present version.
pub(super) fn v1() -> ServerReflectionServer<impl ServerReflection> {
    described().build_v1().expect("the descriptors were made by our build")
}

/// The version that most tools still ask for first.
pub(super) fn v1alpha() -> AlphaReflectionServer<impl AlphaReflection> {
    described().build_v1alpha().expect("the descriptors were made by our build")
}
