//! The etcd3 package for Python: keys, transactions, watches, leases, and its lock.
#![allow(clippy::unwrap_used)]

use std::{path::Path, process::Command};

use tenure_e2e::{Cluster, tools};

#[tokio::test(flavor = "multi_thread")]
async fn it_serves_the_python_client() {
    for count in [1, 3] {
        let cluster = Cluster::start(count).await;
        let member = cluster.members.last().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/etcd3_client.py");
        let output = Command::new(tools::installed("python"))
            .arg(script)
            .arg(member.client.to_string())
            // The package was generated for an older protobuf, which only this implementation still reads.
            .env("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{count} members\n{said}\n{errors}");
    }
}
