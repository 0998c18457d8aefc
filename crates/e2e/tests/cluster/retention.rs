//! History that is given up by itself.

use tenure::grpc::Client;
use tenure_e2e::{Cluster, Plan, eventually, pb};

const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";

/// Writes one key over and over; answers the first and the last revision.
async fn write(client: &Client, times: usize) -> (i64, i64) {
    let mut revisions = Vec::new();
    for n in 0..times {
        let put =
            pb::PutRequest { key: "k".into(), value: n.to_string().into(), ..Default::default() };
        revisions.push(client.kv().put(put).await.unwrap().header.unwrap().revision);
    }
    (revisions[0], revisions[times - 1])
}

async fn read(client: &Client, revision: i64) -> Result<i64, String> {
    let range = pb::RangeRequest { key: "k".into(), revision, ..Default::default() };
    let found = client.kv().range(range).await;
    found.map(|found| found.count).map_err(|error| error.to_string())
}

async fn must_be_compacted(client: &Client, revision: i64) {
    eventually("an old revision is compacted", async || match read(client, revision).await {
        Err(error) if error.contains(COMPACTED) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_compacts_what_is_older_than_its_period() {
    let cluster = Cluster::with(3, Plan::flags(&["--auto-compaction-retention", "2s"])).await;
    let client = cluster.client();
    let (first, last) = write(&client, 10).await;
    assert_eq!(read(&client, first).await, Ok(1), "it is not so old yet");
    for member in &cluster.members {
        must_be_compacted(&member.client(), first).await;
    }
    assert_eq!(read(&client, 0).await, Ok(1), "what is in force is not history");
    let request = pb::HashKvRequest { revision: 0 };
    let hash = client.maintenance().hash_kv(request).await.unwrap();
    assert!(hash.compact_revision <= last, "{hash:?}");
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_keeps_no_more_revisions_than_configured() {
    let flags = ["--auto-compaction-mode", "revision", "--auto-compaction-retention", "5"];
    let cluster = Cluster::with(3, Plan::flags(&flags)).await;
    let client = cluster.client();
    let (first, last) = write(&client, 20).await;
    assert_eq!(read(&client, first).await, Ok(1), "they are counted once a minute");
    // And whenever a member becomes raft leader, which the test need not wait a minute for.
    cluster.same_everywhere().await;
    let leader = cluster.leader().await;
    let target_id = cluster.id(cluster.other_than(leader)).await;
    let request = pb::MoveLeaderRequest { target_id };
    cluster.members[leader].client().maintenance().move_leader(request).await.unwrap();
    must_be_compacted(&client, last - 6).await;
    assert_eq!(read(&client, last - 5).await, Ok(1), "so many are kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_counts_what_was_written_before_a_start() {
    let flags = ["--auto-compaction-mode", "revision", "--auto-compaction-retention", "5"];
    let mut cluster = Cluster::with(1, Plan::flags(&flags)).await;
    let (_, last) = write(&cluster.client(), 20).await;
    cluster.members[0].kill();
    cluster.members[0].start();
    cluster.ready().await;
    must_be_compacted(&cluster.client(), last - 6).await;
    assert_eq!(read(&cluster.client(), last - 5).await, Ok(1), "so many are kept");
}
