//! Members that fall behind and catch up.

use tenure::grpc::Client;
use tenure_e2e::{Cluster, Ctl, Plan, Relay, eventually, pb, reserve};

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
async fn member_catches_up_from_the_log_after_a_pause() {
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

/// What the raft leader keeps of its log for members that are behind is 64 MiB at the most.
const MORE_THAN_IS_KEPT: usize = 72;

#[tokio::test(flavor = "multi_thread")]
async fn member_catches_up_from_a_snapshot_when_the_log_was_trimmed() {
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
    cluster.lead(slow).await;
    let client = cluster.members[slow].client();
    client.lease().revoke(granted.id).await.unwrap();
    let under = pb::RangeRequest { key: "under/1".into(), ..Default::default() };
    assert_eq!(client.kv().range(under).await.unwrap().count, 0);
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn member_catches_up_from_a_snapshot_after_a_long_pause() {
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

/// The numbers of this name in the lines of a log that have these words.
fn numbers(log: &str, words: &str, name: &str) -> Vec<u64> {
    let lines = log.lines().filter(|line| line.contains(words));
    let said = lines.filter_map(|line| line.split_once(&format!(" {name}=")).map(|(_, rest)| rest));
    let digits = said.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

/// The log shows that a new member makes progress, and how much.
#[tokio::test(flavor = "multi_thread")]
async fn member_that_joins_says_how_far_it_is() {
    let mut cluster = Cluster::with(1, Plan::flags(&["--snapshot-count", "20"])).await;
    let client = cluster.members[0].client();
    // So many more that the log does not go back to the large ones: they come as a snapshot.
    write(&client, 0, 8, 1 << 20).await;
    write(&client, 8, 200, 10).await;
    let tool = Ctl::ours(&cluster.members[0]);
    let at = cluster.add(&tool, &["--learner"]);
    let behind = reserve(1)[0];
    let relay = Relay::at(cluster.members[at].peer, behind).await;
    relay.slow_down();
    cluster.members[at].moved_to = Some(behind);
    cluster.members[at].start();
    for (member, words) in [(at, "receiving a snapshot"), (0, "sending a snapshot")] {
        eventually(&format!("two looks at {words}"), async || {
            let log = cluster.members[member].log();
            match numbers(&log, words, "bytes")[..] {
                [first, .., last] if 0 < first && first < last => Ok(()),
                _ => Err(log),
            }
        })
        .await;
    }
    let committed = cluster.status(0).await.unwrap().raft_index;
    eventually("it says how far it is, and of how much", async || {
        let log = cluster.members[at].log();
        let goals = numbers(&log, "catching up: applied", "of");
        if goals.iter().any(|goal| *goal > 200 && *goal <= committed) { Ok(()) } else { Err(log) }
    })
    .await;
    relay.mend();
    cluster.members[at].logs("caught up with the raft leader").await;
    assert_eq!(count(&cluster.members[at].client()).await, 208);
}
