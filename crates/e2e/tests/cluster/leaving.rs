//! There and back: from a real etcd 3.5.1 to tenure, and from tenure to a real etcd.

use std::{path::Path, process::Command};

use tempfile::TempDir;
use tenure::grpc::{Client, Endpoint, Options};
use tenure_e2e::{Cluster, Ctl, Etcd, Member, Plan, pb, tools};

use super::view::View;

const KEYS: usize = 100_000;
/// As many as etcd takes.
const OPS_MAX: usize = 128;
/// Revisions between those that are compared as wholes.
const STEP: usize = 200;

fn client_of(endpoints: &str) -> Client {
    Client::new(Endpoint::list(endpoints).unwrap(), Options::default())
}

fn put(key: String, value: String, lease: i64) -> pb::RequestOp {
    let (key, value) = (key.into_bytes().into(), value.into_bytes().into());
    let put = pb::PutRequest { key, value, lease, ..Default::default() };
    pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put)) }
}

fn delete(key: String) -> pb::RequestOp {
    let delete = pb::DeleteRangeRequest { key: key.into_bytes().into(), ..Default::default() };
    pb::RequestOp { request: Some(pb::request_op::Request::RequestDeleteRange(delete)) }
}

async fn txn(client: &Client, success: Vec<pb::RequestOp>) -> i64 {
    let txn = pb::TxnRequest { success, ..Default::default() };
    client.kv().txn(txn).await.unwrap().header.unwrap().revision
}

/// 100,000 keys, some with leases; then some of them changed and deleted. Returns the compacted revision.
async fn fill(client: &Client) -> i64 {
    let mut leases = vec![0; 8];
    for ttl in 0..8 {
        let grant = pb::LeaseGrantRequest { ttl: 1000 + ttl, id: 0 };
        leases.push(client.lease().grant(grant).await.unwrap().id);
    }
    let keys: Vec<usize> = (0..KEYS).collect();
    for keys in keys.chunks(OPS_MAX) {
        let ops = keys
            .iter()
            .map(|n| put(format!("key/{n:06}"), format!("value {n}"), leases[n % leases.len()]));
        txn(client, ops.collect()).await;
    }
    let compacted =
        txn(client, vec![put("z".into(), "1".into(), 0), put("a".into(), "1".into(), 0)]).await;
    for n in 0..200 {
        // In another order than that of the keys.
        let ops = vec![
            put(format!("key/{:06}", 7 * n + 1), "changed".into(), leases[n % leases.len()]),
            delete(format!("key/{:06}", 7 * n)),
            put(format!("key/{:06}", 99_999 - n), "x".repeat(n * 50), 0),
        ];
        txn(client, ops).await;
    }
    let compact = pb::CompactionRequest { revision: compacted, physical: true };
    client.kv().compact(compact).await.unwrap();
    compacted
}

fn imported(member: &Member, file: &Path) -> std::process::Output {
    let mut command = Command::new(tools::tenure());
    command.args(["import", "--from"]).arg(file).arg("--data-dir").arg(&member.data_dir);
    command.args(["--name", &member.name, "--initial-cluster", member.initial_cluster()]);
    command.output().unwrap()
}

fn assert_same(here: &View, there: &View) {
    assert_eq!(here.revision, there.revision);
    for (here, there) in here.keys.iter().zip(&there.keys) {
        assert!(here == there, "keys at revision {}", there.0);
    }
    for (here, there) in here.events.iter().zip(&there.events) {
        assert_eq!(here, there);
    }
    assert!(here == there, "the leases, or how many there are of anything");
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_moves_from_etcd_to_tenure_and_back() {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name);
    let saved = |ctl: &Ctl, name: &str| {
        ctl.run(&["snapshot", "save", path(name).to_str().unwrap()]).ok();
        let status = Ctl::to("").run(&["snapshot", "status", path(name).to_str().unwrap()]).ok();
        assert!(status.contains(", "), "{status}");
    };
    let etcd = Ctl::with_real_etcd().await;
    let compacted = fill(&client_of(etcd.endpoints())).await;
    saved(&etcd, "etcd.db");
    let before = View::of(&client_of(etcd.endpoints()), compacted, STEP).await;

    let mut cluster = Cluster::prepare(1, Plan::default());
    assert!(imported(&cluster.members[0], &path("etcd.db")).status.success());
    cluster.members[0].start();
    cluster.ready().await;
    assert_same(&View::of(&cluster.client(), compacted, STEP).await, &before);
    // Something that only tenure has, and something of everything.
    fill_a_little(&cluster.client()).await;
    saved(&Ctl::of(&cluster), "tenure.db");
    let before = View::of(&cluster.client(), compacted, STEP).await;

    let mut back = Etcd::prepare(1);
    back.restore(0, path("tenure.db").to_str().unwrap());
    back.start_member(0);
    back.healthy().await;
    let client = client_of(&back.endpoints());
    assert_same(&View::of(&client, compacted, STEP).await, &before);
    let ctl = Ctl::to(&back.endpoints());

    // The file as tenure saved it is a backup of tenure, and no import.
    let elsewhere = Cluster::prepare(2, Plan::default());
    let refused = imported(&elsewhere.members[0], &path("tenure.db"));
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("tenure snapshot restore"), "{why}");
    let restored = elsewhere.members[0].restore(&path("tenure.db"));
    assert!(restored.status.success(), "{restored:?}");

    // etcd goes on: it writes, compacts and deletes, and what it saves is its own again.
    let last = fill_a_little(&client).await;
    ctl.run(&["compaction", &last.to_string(), "--physical"]).ok();
    ctl.run(&["defrag"]).ok();
    saved(&ctl, "again.db");
    let refused = elsewhere.members[1].restore(&path("again.db"));
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("tenure import"), "{why}");
    assert!(imported(&elsewhere.members[1], &path("again.db")).status.success());
}

async fn fill_a_little(client: &Client) -> i64 {
    let lease = client.lease().grant(pb::LeaseGrantRequest { ttl: 600, id: 0 }).await.unwrap().id;
    txn(client, vec![put("new/b".into(), "1".into(), lease), put("new/a".into(), "1".into(), 0)])
        .await;
    txn(client, vec![delete("new/a".into()), put("key/050000".into(), "2".into(), 0)]).await
}
