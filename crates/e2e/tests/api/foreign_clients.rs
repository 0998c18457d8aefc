//! Clients in other languages: the packages etcd3 and etcd3gw for Python, and etcd3 for Node.

use std::{path::Path, process::Command};

use tenure_e2e::{Cluster, tools};

/// Runs a script of ours against clusters of one and of three members.
async fn run(command: impl Fn() -> Command, script: &str) {
    for count in [1, 3] {
        let cluster = Cluster::start(count).await;
        let member = cluster.members.last().unwrap();
        let output = command()
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
            .arg(member.client.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{count} members\n{said}\n{errors}");
    }
}

fn python() -> Command {
    let mut python = Command::new(tools::installed("python"));
    // The packages were generated for an older protobuf, which only this implementation still reads.
    python.env("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python");
    python
}

fn node() -> Command {
    let mut node = Command::new(tools::system("node", "nodejs"));
    node.env("NODE_PATH", tools::node_modules());
    node
}

#[tokio::test(flavor = "multi_thread")]
async fn server_serves_the_python_client() {
    run(python, "python/etcd3_client.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_serves_the_python_client_of_the_gateway() {
    run(python, "python/etcd3gw_client.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_serves_the_node_client() {
    run(node, "node/etcd3_client.js").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_describes_itself_to_the_python_client_of_reflection() {
    run(python, "python/reflection_client.py").await;
}
