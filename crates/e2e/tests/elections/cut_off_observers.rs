//! What a member that is cut off from the others tells an observer.

use tenure_e2e::{Caller, Cluster, Network};

const TTL: i64 = 600;
const NAME: &str = "office";

fn caller(cluster: &Cluster, at: usize) -> Caller {
    Caller::new(cluster.members[at].client())
}

/// The member may still believe in the raft leader that it has not heard of for a moment, and what it has applied
/// says that the old leader leads. It must not be heard.
#[tokio::test(flavor = "multi_thread")]
async fn observer_at_a_member_that_is_cut_off_does_not_hear_of_a_leader_of_the_past() {
    let network = Network::new(3);
    let cluster = network.cluster(&[]).await;
    let raft_leader = cluster.leader().await;
    let alone = cluster.other_than(raft_leader);
    let majority = caller(&cluster, raft_leader);
    let first = majority.elected(NAME, majority.lease(TTL).await, "first").await;
    // The member that will be cut off knows of the first.
    let cut_off = caller(&cluster, alone);
    assert_eq!(cut_off.observe(NAME).await.next_value().await, "first");

    network.isolate(alone);
    majority.resign(first).await.unwrap();
    majority.elected(NAME, majority.lease(TTL).await, "second").await;
    let heard = cut_off.observe(NAME).await.next().await;
    assert!(heard.is_err(), "{heard:?}");

    network.heal();
    tenure_e2e::eventually("it hears of the leader again", async || {
        let heard =
            cut_off.observe(NAME).await.next().await.map_err(|status| status.to_string())?;
        assert_eq!(heard.kv.unwrap().value, "second");
        Ok(())
    })
    .await;
}
