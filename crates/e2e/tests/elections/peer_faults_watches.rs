//! Event others' watches hear at a member that is cut off, on a real etcd 3.5.1 and on us.
//!
//! Event is to be seen on each is in `tenure_e2e::faults`, by the name of the test.

use std::time::Duration;

use tenure::api::wire::tenure::v1 as tenure_pb;
use tenure_e2e::{
    Caller, Network, Side, Watcher, faults::on_networks, pb, session::elections as elections_at,
};
use tonic::Code;

/// Longer than news take to arrive, many times over.
const SILENCE: Duration = Duration::from_secs(1);
/// How long an end that must come may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A watch on the key, which is there.
async fn watch(caller: &Caller, has_leader: bool) -> Watcher {
    let create = pb::WatchCreateRequest { key: "k".into(), ..Default::default() };
    let mut watcher = Watcher::of(caller.client(), has_leader, create).await.unwrap();
    assert!(watcher.next().await.created);
    watcher
}

/// A member is cut off from the other two. A client that watches there still reaches it, and the others go on.
#[tokio::test(flavor = "multi_thread")]
async fn watch_that_wants_a_leader_does_not_hang_at_a_member_that_is_cut_off() {
    let test = "watch_that_wants_a_leader_does_not_hang_at_a_member_that_is_cut_off";
    on_networks(test, async |side: &mut Side, network: &Network| {
        let raft_leader = side.raft_leader().await;
        let alone = (raft_leader + 1) % 3;
        let (majority, cut_off) = (side.caller_at(raft_leader), side.caller_at(alone));
        let (mut patient, mut wants) = (watch(&cut_off, false).await, watch(&cut_off, true).await);
        let mut observer = match side {
            Side::Etcd(_) => None,
            Side::Tenure(cluster) => {
                let observe =
                    tenure_pb::ObserveRequest { name: "office".into(), after_revision: 0 };
                let mut lines = elections_at(cluster.members[alone].client).await;
                let mut observer = lines.observe(observe).await.unwrap().into_inner();
                observer.message().await.unwrap().unwrap();
                Some(observer)
            }
        };
        network.isolate(alone);
        let revision = majority.put("k", "of the others").await;
        let ended = wants.try_next().await.unwrap_err();
        let mut words = match patient.is_silent(SILENCE).await {
            true => "a watch hears nothing".to_owned(),
            false => "a watch hears something".to_owned(),
        };
        words += &format!("; one that wants a leader is ended: {}", ended.message());
        if let Some(observer) = &mut observer {
            let ended = tokio::time::timeout(PATIENCE, observer.message()).await;
            assert_eq!(ended.expect("it is let go").unwrap_err().code(), Code::Unavailable);
            words += "; an observer of `tenure.v1` is let go";
        }
        network.heal();
        let heard = patient.next().await.events;
        assert_eq!(heard[0].kv.as_ref().unwrap().mod_revision, revision, "nothing is lost");
        words
    })
    .await;
}
