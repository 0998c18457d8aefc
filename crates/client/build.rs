//! Generates the client half of the etcd v3 services, over the messages that `tenure-api` owns.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos = "../api/proto";
    println!("cargo:rerun-if-changed={protos}");
    let files = protox::compile(
        [
            "etcdserverpb/rpc.proto",
            "v3electionpb/v3election.proto",
            "v3lockpb/v3lock.proto",
            "tenure/v1/session.proto",
            "tenure/v1/election.proto",
            "tenure/v1/member.proto",
        ],
        [protos],
    )?;
    let mut stubs = tonic_prost_build::configure().build_server(false).build_transport(false);
    for package in ["etcdserverpb", "mvccpb", "authpb", "v3electionpb", "v3lockpb"] {
        stubs = stubs.extern_path(format!(".{package}"), format!("::tenure_api::wire::{package}"));
    }
    stubs.extern_path(".tenure.v1", "::tenure_api::wire::tenure::v1").compile_fds(files)?;
    Ok(())
}
