//! Generates the server half of the etcd v3 services, over the messages that `tenure-api` owns.

/// The services with a door here so far; the others answer Unimplemented.
const SERVED: [&str; 8] =
    ["KV", "Watch", "Lease", "Cluster", "Maintenance", "Auth", "Sessions", "Lines"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos = "../api/proto";
    println!("cargo:rerun-if-changed={protos}");
    let mut files = protox::compile(
        ["etcdserverpb/rpc.proto", "tenure/v1/session.proto", "tenure/v1/line.proto"],
        [protos],
    )?;
    for file in &mut files.file {
        file.service.retain(|service| SERVED.contains(&service.name()));
    }
    tonic_prost_build::configure()
        .build_client(false)
        .extern_path(".etcdserverpb", "::tenure_api::wire::etcdserverpb")
        .extern_path(".mvccpb", "::tenure_api::wire::mvccpb")
        .extern_path(".authpb", "::tenure_api::wire::authpb")
        .extern_path(".tenure.v1", "::tenure_api::wire::tenure::v1")
        .compile_fds(files)?;
    Ok(())
}
