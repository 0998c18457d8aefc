//! Clients of etcd in other languages, with TLS and a user.

use std::{path::Path, process::Command};

use tenure::tls::PairFiles;
use tenure_e2e::{Certs, Cluster, Plan, Spawn, tools};

use crate::stage;

async fn run(mut command: Command, script: &str, url: impl Fn(&Cluster) -> String) {
    let certs = Certs::new();
    let spawn = Spawn { tls: Some(certs.clone()), ..Spawn::default() };
    let cluster = Cluster::with(3, Plan { spawn, ..Plan::default() }).await;
    let client = cluster.client();
    stage::add_users(&client).await;
    stage::enable(&client).await;
    // A certificate whose name is no user: the password says who it is.
    let PairFiles { cert, key } = certs.pair("client", &[]);
    let output = command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
        .arg(url(&cluster))
        .arg(certs.ca())
        .args([cert, key])
        .args(["alice", &stage::password("alice")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_tls_serve_the_python_client() {
    let mut python = Command::new(tools::installed("python"));
    // The packages were generated for an older protobuf, which only this implementation still reads.
    python.env("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python");
    run(python, "python/etcd3_users.py", |cluster| cluster.members[0].client.to_string()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_tls_serve_the_node_client() {
    let mut node = Command::new(tools::system("node", "nodejs"));
    node.env("NODE_PATH", tools::node_modules());
    run(node, "node/etcd3_users.js", |cluster| cluster.members[0].client_url()).await;
}
