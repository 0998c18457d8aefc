//! Generates the messages of the etcd v3 API and of our own from `proto/`, when the feature `wire` is on.
//!
//! Messages only: the client and the server generate their own halves of the services, over the
//! types made here, so that this crate needs neither of their transports.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    #[cfg(feature = "wire")]
    messages()?;
    Ok(())
}

#[cfg(feature = "wire")]
fn messages() -> Result<(), Box<dyn std::error::Error>> {
    use std::path::Path;

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_files([
        "etcdserverpb/rpc.proto",
        "v3electionpb/v3election.proto",
        "v3lockpb/v3lock.proto",
        "tenure/v1/session.proto",
        "tenure/v1/election.proto",
        "tenure/v1/member.proto",
        "grpc/health/v1/health.proto",
    ])?;
    let described = Path::new(&std::env::var("OUT_DIR")?).join("descriptors.bin");
    std::fs::write(described, compiler.encode_file_descriptor_set())?;
    let files = compiler.include_source_info(true).file_descriptor_set();
    // `Bytes` for every bytes field: a key or value is then a share of the request's buffer, and
    // goes from the socket into the store and out to every watcher without a copy.
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        .bytes(".")
        // They have passwords and tokens; `wire/secrets.rs` says what is shown instead.
        .skip_debug([
            "etcdserverpb.AuthenticateRequest",
            "etcdserverpb.AuthenticateResponse",
            "etcdserverpb.AuthUserAddRequest",
            "etcdserverpb.AuthUserChangePasswordRequest",
            "authpb.User",
        ])
        .compile_fds(files)?;
    Ok(())
}
