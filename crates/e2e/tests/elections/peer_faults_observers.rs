//! Event others' observers do not hear, on a real etcd 3.5.1 and on us.
//!
//! Event is to be seen on each is in `tenure_e2e::faults`, by the name of the test.

use std::time::Duration;

use tenure::api::wire::tenure::v1 as tenure_pb;
use tenure_e2e::{
    Caller, Side, electionpb::LeaderKey, faults::on_both, pb, session::elections as elections_at,
};
use tenure_pb::observe_response::Event;
use tonic::Streaming;

const TTL: i64 = 600;
/// Longer than news take to arrive, many times over.
const SILENCE: Duration = Duration::from_secs(1);
/// How long news that must come may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often something is tried that a server may happen to survive.
const TRIALS: usize = 20;
/// How much longer than the trial before it each waits for what cannot be seen.
const LONGER: Duration = Duration::from_millis(5);

/// An observer that has heard of a leader.
async fn observed(caller: &Caller, name: &str) -> (tenure_e2e::Observer, LeaderKey) {
    let leader = caller.elected(name, caller.lease(TTL).await, "first").await;
    let mut observer = caller.observe(name).await;
    assert_eq!(observer.next_value().await, "first");
    (observer, leader)
}

/// Two candidates at one revision, the later by name first.
fn both_at_once(name: &str) -> pb::TxnRequest {
    let put = |candidate: &str| pb::RequestOp {
        request: Some(pb::request_op::Request::RequestPut(pb::PutRequest {
            key: format!("{name}/{candidate}").into(),
            value: candidate.to_owned().into(),
            ..Default::default()
        })),
    };
    pb::TxnRequest { success: vec![put("b"), put("a")], ..Default::default() }
}

/// etcd's observer, when there is no leader, takes the first key that it hears of for the leader's.
#[tokio::test(flavor = "multi_thread")]
async fn observer_hears_of_the_leader_only() {
    on_both("observer_hears_of_the_leader_only", async |side: &mut Side| {
        let caller = side.caller();
        for trial in 0..TRIALS {
            let name = format!("office-{trial}");
            let (mut observer, leader) = observed(&caller, &name).await;
            caller.resign(leader).await.unwrap();
            // etcd must have come to look for a first key again; how long that takes cannot be seen.
            tokio::time::sleep(LONGER * trial as u32).await;
            caller.client().kv().txn(both_at_once(&name)).await.unwrap();
            let heard = observer.next_value().await;
            let leads = caller.leader(&name).await.unwrap().kv.unwrap();
            if heard != leads.value {
                return "of another than the leader".to_owned();
            }
        }
        "of the leader".to_owned()
    })
    .await;
}

/// etcd's observer looks at the history for up to 100 ms after it has begun to wait for a first leader.
#[tokio::test(flavor = "multi_thread")]
async fn compaction_does_not_break_an_observer() {
    on_both("compaction_does_not_break_an_observer", async |side: &mut Side| {
        let caller = side.caller();
        for trial in 0..TRIALS {
            let name = format!("office-{trial}");
            let (mut observer, leader) = observed(&caller, &name).await;
            caller.resign(leader).await.unwrap();
            for _ in 0..5 {
                caller.compact().await;
            }
            caller.elected(&name, caller.lease(TTL).await, "second").await;
            match observer.next().await {
                Ok(heard) => assert_eq!(heard.kv.unwrap().value, "second"),
                Err(status) => return format!("ended: {}", status.message()),
            }
        }
        "heard of every leader".to_owned()
    })
    .await;
}

/// Event is told of `tenure.v1`, where there is such a thing.
async fn told_by_us(side: &Side, name: &str) -> Option<Streaming<tenure_pb::ObserveResponse>> {
    let Side::Tenure(cluster) = side else { return None };
    let observe = tenure_pb::ObserveRequest { name: name.to_owned(), after_revision: 0 };
    let mut lines = elections_at(cluster.members[0].client).await;
    Some(lines.observe(observe).await.unwrap().into_inner())
}

/// The next word of `tenure.v1`.
async fn word(observer: &mut Streaming<tenure_pb::ObserveResponse>) -> Event {
    let next = tokio::time::timeout(PATIENCE, observer.message()).await;
    next.expect("a word in time").unwrap().expect("the stream goes on").event.unwrap()
}

/// A leader goes, by its own will or with its lease, and there is no successor for a while.
#[tokio::test(flavor = "multi_thread")]
async fn observer_is_told_that_there_is_no_leader() {
    on_both("observer_is_told_that_there_is_no_leader", async |side: &mut Side| {
        let caller = side.caller();
        let mut told = vec![];
        for name in ["resigned", "revoked"] {
            let (mut observer, leader) = observed(&caller, name).await;
            let mut ours = told_by_us(side, name).await;
            match name {
                "resigned" => drop(caller.resign(leader).await.unwrap()),
                _ => caller.revoke(leader.lease).await,
            }
            let mut words = match observer.within(SILENCE).await {
                None => "etcd's Observe says nothing".to_owned(),
                Some(heard) => format!("etcd's Observe says {heard:?}"),
            };
            if let Some(ours) = &mut ours {
                assert!(matches!(word(ours).await, Event::Began(_)), "who led");
                assert!(matches!(word(ours).await, Event::Ended(_)), "it is over");
                words += match word(ours).await {
                    Event::NoLeader(_) => ", `tenure.v1` that nobody leads",
                    _ => ", `tenure.v1` something else",
                };
            }
            caller.elected(name, caller.lease(TTL).await, "second").await;
            assert_eq!(observer.next_value().await, "second", "it still listens");
            told.push(words);
        }
        assert_eq!(told[0], told[1], "both ends are told alike");
        told.remove(0)
    })
    .await;
}
