//! Generates the server half of the etcd v3 services, over the messages that `tenure-api` owns.

/// The services with a door here so far; the others answer Unimplemented.
const SERVED: [&str; 6] = ["KV", "Watch", "Lease", "Cluster", "Maintenance", "Auth"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos = "../api/proto";
    println!("cargo:rerun-if-changed={protos}");
    let mut files = protox::compile(["etcdserverpb/rpc.proto"], [protos])?;
    for file in &mut files.file {
        file.service.retain(|service| SERVED.contains(&service.name()));
    }
    tonic_prost_build::configure()
        .build_client(false)
        .extern_path(".etcdserverpb", "::tenure_api::wire::etcdserverpb")
        .extern_path(".mvccpb", "::tenure_api::wire::mvccpb")
        .extern_path(".authpb", "::tenure_api::wire::authpb")
        .compile_fds(files)?;
    Ok(())
}
