//! Members that fall behind and catch up.

use tenure::grpc::Client;
use tenure_e2e::{Cluster, Plan, pb};

async fn write(client: &Client, from: usize, count: usize, size: usize) {
    for n in from..from + count {
        let put = pb::PutRequest {
            key: format!("key/{n:05}").into(),
            value: vec![b'x'; size].into(),
            ..Default::default()
        };
        client.kv().put(put).await.unwrap();
    }
}

/// Keys that a member has by itself.
async fn count(client: &Client) -> i64 {
    let range = pb::RangeRequest {
        key: "key/".into(),
        range_end: "key0".into(),
        count_only: true,
        serializable: true,
        ..Default::default()
    };
    client.kv().range(range).await.unwrap().count
}

#[tokio::test(flavor = "multi_thread")]
async fn it_catches_up_from_the_log_after_a_pause() {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let slow = cluster.other_than(leader);
    let client = cluster.members[leader].client();
    cluster.members[slow].pause();
    write(&client, 0, 300, 100).await;
    cluster.members[slow].resume();
    cluster.same_everywhere().await;
    assert_eq!(count(&cluster.members[slow].client()).await, 300);
    assert!(!cluster.members[slow].log().contains("snapshot"), "the log was enough");
}

/// What the raft leader keeps of its log for those who are behind is 64 MiB at the most.
const MORE_THAN_IS_KEPT: usize = 72;

#[tokio::test(flavor = "multi_thread")]
async fn it_catches_up_from_a_snapshot_when_the_log_was_trimmed() {
    let mut cluster = Cluster::with(3, Plan::flags(&["--snapshot-count", "20"])).await;
    let leader = cluster.leader().await;
    let slow = cluster.other_than(leader);
    let client = cluster.members[leader].client();
    write(&client, 0, 5, 100).await;
    let granted = client.lease().grant(pb::LeaseGrantRequest { ttl: 600, id: 7 }).await.unwrap();
    let under = pb::PutRequest { key: "under/1".into(), lease: granted.id, ..Default::default() };
    client.kv().put(under).await.unwrap();
    cluster.members[slow].kill();
    write(&client, 5, MORE_THAN_IS_KEPT, 1 << 20).await;
    cluster.members[slow].start();
    cluster.members[slow].ready().await;
    cluster.same_everywhere().await;
    cluster.members[slow].logs("snapshot").await;
    let all = (5 + MORE_THAN_IS_KEPT) as i64;
    assert_eq!(count(&cluster.members[slow].client()).await, all);

    // What was installed is durable, and the log goes on after it.
    write(&client, all as usize, 10, 100).await;
    cluster.same_everywhere().await;
    cluster.members[slow].kill();
    cluster.members[slow].start();
    cluster.members[slow].ready().await;
    cluster.same_everywhere().await;
    assert_eq!(count(&cluster.members[slow].client()).await, all + 10);

    // Leases came with it: as raft leader it can end one, and the key goes everywhere.
    let request = pb::MoveLeaderRequest { target_id: cluster.id(slow).await };
    let leader = cluster.leader().await;
    cluster.members[leader].client().maintenance().move_leader(request).await.unwrap();
    let client = cluster.members[slow].client();
    client.lease().revoke(granted.id).await.unwrap();
    let under = pb::RangeRequest { key: "under/1".into(), ..Default::default() };
    assert_eq!(client.kv().range(under).await.unwrap().count, 0);
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_catches_up_from_a_snapshot_after_a_long_pause() {
    let cluster = Cluster::with(3, Plan::flags(&["--snapshot-count", "20"])).await;
    let leader = cluster.leader().await;
    let slow = cluster.other_than(leader);
    let client = cluster.members[leader].client();
    cluster.members[slow].pause();
    write(&client, 0, MORE_THAN_IS_KEPT + 16, 1 << 20).await;
    cluster.members[slow].resume();
    cluster.same_everywhere().await;
    assert_eq!(count(&cluster.members[slow].client()).await, (MORE_THAN_IS_KEPT + 16) as i64);
}
