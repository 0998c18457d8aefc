//! Writes that the store itself refuses once their holder was replaced, on our own server and on a
//! real etcd 3.5.1.

use std::{ops::ControlFlow, time::Duration};

use tenure::elector::{ElectorConfig, Ended, LeaderElector, Scope};
use tenure::fence::{
    FencingToken, GuardedError, GuardedTxn, HolderKey, guarded_delete, guarded_put, guarded_txn,
};
use tenure::grpc::{Client, Endpoint, Options};
use tenure::{Election, Engine, Lock, Session};
use tenure_e2e::{Cluster, Ctl, pb};

/// The smallest TTL that etcd 3.5.1 grants with its default election timeout.
const SHORT_TTL: i64 = 2;
/// Longer than any test.
const LONG_TTL: i64 = 600;
/// How long a lease may outlive its TTL on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const NAME: &str = "primary";

/// Is the first candidate with a key of its own, as etcd's election recipe lays it out. The lease is
/// never renewed: as far as the store can see, its holder is paused from now on.
async fn hold(client: &Client, ttl: i64) -> (HolderKey, i64) {
    let granted = client.lease().grant(pb::LeaseGrantRequest { ttl, id: 0 }).await.unwrap();
    let key = format!("{NAME}/{:x}", granted.id);
    let put = pb::PutRequest { key: key.clone().into(), lease: granted.id, ..Default::default() };
    let revision = client.kv().put(put).await.unwrap().header.unwrap().revision;
    (HolderKey::new(key, FencingToken::from_revision(revision).unwrap()), granted.id)
}

fn put(key: &str, value: &str) -> pb::PutRequest {
    pb::PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..Default::default()
    }
}

async fn value(client: &Client, key: &str) -> Option<String> {
    let range = pb::RangeRequest { key: key.to_owned().into(), ..Default::default() };
    let found = client.kv().range(range).await.unwrap();
    found.kvs.first().map(|kv| String::from_utf8(kv.value.to_vec()).unwrap())
}

async fn revision(client: &Client) -> i64 {
    let range = pb::RangeRequest { key: "any".into(), ..Default::default() };
    client.kv().range(range).await.unwrap().header.unwrap().revision
}

/// Returns when the store has deleted the holder's key.
async fn until_gone(client: &Client, holder: &HolderKey) {
    let create = pb::WatchCreateRequest {
        key: holder.key().to_vec().into(),
        start_revision: holder.token().get() + 1,
        filters: vec![pb::watch_create_request::FilterType::Noput as i32],
        ..Default::default()
    };
    let mut watch = client.watch().resumed(create).await.unwrap();
    let gone = async { while watch.next().await.unwrap().events.is_empty() {} };
    tokio::time::timeout(PATIENCE, gone).await.expect("a lease that nobody renews ends");
}

fn deposed<T: std::fmt::Debug>(result: Result<T, GuardedError>) -> Option<FencingToken> {
    match result {
        Err(GuardedError::Deposed { in_force, .. }) => in_force,
        other => panic!("a write of a holder that was replaced: {other:?}"),
    }
}

async fn a_paused_holders_late_write_is_refused(client: &Client) {
    let (paused, _) = hold(client, SHORT_TTL).await;
    guarded_put(client, &paused, put("state", "of the first")).await.unwrap();
    until_gone(client, &paused).await;

    // No other has taken over yet, and the late write is refused already.
    assert_eq!(deposed(guarded_put(client, &paused, put("state", "late")).await), None);
    let (next, lease) = hold(client, LONG_TTL).await;
    assert!(next.token() > paused.token());
    guarded_put(client, &next, put("state", "of the second")).await.unwrap();

    let before = revision(client).await;
    let late = guarded_put(client, &paused, put("state", "late")).await;
    assert_eq!(deposed(late), Some(next.token()));
    let delete = pb::DeleteRangeRequest { key: "state".into(), ..Default::default() };
    assert_eq!(deposed(guarded_delete(client, &paused, delete).await), Some(next.token()));
    assert_eq!(value(client, "state").await.as_deref(), Some("of the second"));
    assert_eq!(revision(client).await, before, "what is refused takes no revision");
    client.lease().revoke(lease).await.unwrap();
}

/// A holder that resigns and comes back under the same lease has the same key and a newer token: what
/// it sent before is refused, though it is the holder.
async fn a_holder_that_came_back_is_another_holder(client: &Client) {
    let (first, lease) = hold(client, LONG_TTL).await;
    let key = String::from_utf8(first.key().to_vec()).unwrap();
    let delete = pb::DeleteRangeRequest { key: key.clone().into(), ..Default::default() };
    client.kv().delete_range(delete).await.unwrap();
    let again = pb::PutRequest { lease, ..put(&key, "") };
    let again = client.kv().put(again).await.unwrap().header.unwrap().revision;
    let again = FencingToken::from_revision(again).unwrap();

    assert_eq!(deposed(guarded_put(client, &first, put("state", "old")).await), Some(again));
    // Changing the value of one's key (proclaim) is no new hold.
    client.kv().put(pb::PutRequest { lease, ..put(&key, "proclaimed") }).await.unwrap();
    guarded_put(client, &HolderKey::new(key, again), put("state", "new")).await.unwrap();
    client.lease().revoke(lease).await.unwrap();
}

async fn a_comparison_of_ones_own_that_fails_is_no_lost_hold(client: &Client) {
    use pb::compare::{CompareResult, CompareTarget, TargetUnion};
    let (holder, lease) = hold(client, LONG_TTL).await;
    let absent = |key: &str| pb::Compare {
        key: key.to_owned().into(),
        target: CompareTarget::Version as i32,
        result: CompareResult::Equal as i32,
        target_union: Some(TargetUnion::Version(0)),
        ..Default::default()
    };
    let reserve = |who: &str| pb::TxnRequest {
        compare: vec![absent("seat")],
        success: vec![pb::RequestOp {
            request: Some(pb::request_op::Request::RequestPut(put("seat", who))),
        }],
        ..Default::default()
    };
    let first = guarded_txn(client, &holder, reserve("alice")).await.unwrap();
    assert!(first.succeeded);
    assert_eq!(first.header.unwrap().revision, revision(client).await);
    let second = guarded_txn(client, &holder, reserve("bob")).await.unwrap();
    assert!(!second.succeeded);
    assert_eq!(value(client, "seat").await.as_deref(), Some("alice"));

    client.lease().revoke(lease).await.unwrap();
    assert_eq!(deposed(guarded_txn(client, &holder, reserve("bob")).await), None);
}

/// Why a token is the create revision of a key, and not whatever revision a grant shows: two grants can
/// show the same one.
async fn a_lease_grant_takes_no_revision(client: &Client) {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let grant = pb::LeaseGrantRequest { ttl: LONG_TTL, id: 0 };
        seen.push(client.lease().grant(grant).await.unwrap().header.unwrap().revision);
    }
    assert_eq!(seen[0], seen[1]);
}

/// The same with the library's own leaders and locks, whatever engine they stand on.
async fn a_leadership_that_ends_takes_its_writes_with_it(engine: &Engine, client: &Client) {
    let session = Session::open(engine, Duration::from_secs(60)).await.unwrap();
    let election = Election::new(&session, "guarded/leader").unwrap();
    let leadership = election.candidate("x").campaign().await.unwrap();
    let held = Lock::new(&session, "guarded/lock").unwrap().lock().await.unwrap();
    let leads = leadership.holder_key();
    let holds = held.holder_key();
    guarded_put(client, &leads, put("led", "good")).await.unwrap();
    guarded_put(client, &holds, put("locked", "good")).await.unwrap();
    // The token of the one says nothing about the other.
    let mixed = HolderKey::exclusive(session.id(), held.name(), leadership.token());
    assert_eq!(deposed(guarded_put(client, &mixed, put("led", "no")).await), Some(held.token()));
    leadership.resign().await.unwrap();
    assert_eq!(deposed(guarded_put(client, &leads, put("led", "late")).await), None);
    guarded_put(client, &holds, put("locked", "still good")).await.unwrap();
    session.close().await;
    assert_eq!(deposed(guarded_put(client, &holds, put("locked", "late")).await), None);
    assert_eq!(value(client, "led").await.as_deref(), Some("good"));
    assert_eq!(value(client, "locked").await.as_deref(), Some("still good"));
}

/// What is held writes by itself, without a second client.
async fn held_writes_while_it_lasts(engine: &Engine, client: &Client) {
    let session = Session::open(engine, Duration::from_secs(60)).await.unwrap();
    let election = Election::new(&session, "writing/leader").unwrap();
    let leadership = election.candidate("x").campaign().await.unwrap();
    let first = leadership.put("written", "1").await.unwrap();
    assert!(first.0 > leadership.token().get());
    let move_on = GuardedTxn::new().when_value("written", "1").put("moved", "2").delete("written");
    assert!(leadership.txn(move_on.clone()).await.unwrap().is_some_and(|later| later > first));
    // Its own condition fails: nothing is written, and nothing is lost.
    assert_eq!(leadership.txn(move_on).await.unwrap(), None);
    let again = GuardedTxn::new().when_absent("written").when_revision("moved", first);
    assert_eq!(leadership.txn(again.put("moved", "no")).await.unwrap(), None);
    assert!(!leadership.delete("written").await.unwrap());
    assert_eq!(value(client, "moved").await.as_deref(), Some("2"));
    // A key under the name itself would be a candidate, and lead next.
    let under = leadership.put("writing/leader/state", "x").await.unwrap_err();
    assert!(matches!(under, GuardedError::OwnName { .. }), "{under}");
    let under = GuardedTxn::new().put("writing/leader/state", "x");
    assert!(matches!(leadership.txn(under).await, Err(GuardedError::OwnName { .. })));
    // Its key is deleted behind its back: the store refuses before this process has heard.
    let key = leadership.holder_key().key().to_vec().into();
    let delete = pb::DeleteRangeRequest { key, ..Default::default() };
    client.kv().delete_range(delete).await.unwrap();
    assert_eq!(deposed(leadership.put("moved", "late").await), None);
    assert_eq!(value(client, "moved").await.as_deref(), Some("2"));
}

/// Asked to stop from outside, an elector gives up its leadership when its work has ended.
async fn elector_runs_until_it_is_told_to_stop(engine: &Engine, client: &Client) {
    let config = ElectorConfig::new("guarded/until").unwrap();
    let elector = LeaderElector::new(engine.clone(), config).unwrap();
    let (begun, is_begun) = tokio::sync::oneshot::channel();
    let begun = std::sync::Mutex::new(Some(begun));
    let work = async |scope: Scope| {
        scope.put("until", "begun").await.unwrap();
        begun.lock().unwrap().take().map(|begun| begun.send(()));
        scope.cancelled().await;
        scope.put("until", "ended").await.unwrap();
        ControlFlow::<()>::Continue(())
    };
    assert!(matches!(elector.run_until(is_begun, work).await, Ended::Stopped));
    assert_eq!(value(client, "until").await.as_deref(), Some("ended"));
    assert!(engine.candidates("guarded/until").await.unwrap().is_empty());
}

/// Work that an elector runs knows its key, which is gone when the tenure is over.
async fn the_work_of_an_elector_writes_under_its_own_key(engine: &Engine, client: &Client) {
    let config = ElectorConfig::new("guarded/job").unwrap();
    let elector = LeaderElector::new(engine.clone(), config).unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let work = |scope: Scope| {
        let (client, tell) = (client.clone(), tell.clone());
        async move {
            let holder = scope.holder_key().unwrap();
            guarded_put(&client, &holder, put("worked", "good")).await.unwrap();
            tell.send((scope, holder)).unwrap();
            ControlFlow::Break(())
        }
    };
    assert!(matches!(elector.run(work).await, Ended::Done(())));
    let (scope, holder) = told.recv().await.unwrap();
    assert_eq!(scope.holder_key(), None);
    assert_eq!(deposed(guarded_put(client, &holder, put("worked", "late")).await), None);
    assert_eq!(value(client, "worked").await.as_deref(), Some("good"));
}

async fn all(client: &Client) {
    a_lease_grant_takes_no_revision(client).await;
    a_holder_that_came_back_is_another_holder(client).await;
    a_comparison_of_ones_own_that_fails_is_no_lost_hold(client).await;
    a_paused_holders_late_write_is_refused(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guarded_writes_of_a_replaced_holder_are_refused_by_tenure() {
    let cluster = Cluster::start(3).await;
    let client = cluster.client();
    all(&client).await;
    let endpoints = cluster.endpoints();
    for engine in [Engine::tenure(&endpoints).unwrap(), Engine::etcd(&endpoints).unwrap()] {
        a_leadership_that_ends_takes_its_writes_with_it(&engine, &client).await;
        the_work_of_an_elector_writes_under_its_own_key(&engine, &client).await;
        held_writes_while_it_lasts(&engine, &client).await;
        elector_runs_until_it_is_told_to_stop(&engine, &client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guarded_writes_of_a_replaced_holder_are_refused_by_etcd() {
    let etcd = Ctl::with_real_etcd().await;
    let client = Client::new(Endpoint::list(etcd.endpoints()).unwrap(), Options::default());
    all(&client).await;
    let engine = Engine::etcd(etcd.endpoints()).unwrap();
    a_leadership_that_ends_takes_its_writes_with_it(&engine, &client).await;
    held_writes_while_it_lasts(&engine, &client).await;
}

/// The raft leader dies under the holder: the hold lasts, and so does the refusal.
#[tokio::test(flavor = "multi_thread")]
async fn guarded_writes_are_judged_alike_by_a_new_raft_leader() {
    let mut cluster = Cluster::start(3).await;
    let client = cluster.client();
    let (gone, lease) = hold(&client, LONG_TTL).await;
    client.lease().revoke(lease).await.unwrap();
    let (holder, _) = hold(&client, LONG_TTL).await;
    let leader = cluster.leader().await;
    cluster.members[leader].kill();
    let others: Vec<_> = (0..3).filter(|at| *at != leader).collect();
    cluster.leader_among(&others).await;
    let client = cluster.members[others[0]].client();
    assert_eq!(
        deposed(guarded_put(&client, &gone, put("state", "late")).await),
        Some(holder.token())
    );
    guarded_put(&client, &holder, put("state", "good")).await.unwrap();
    assert_eq!(value(&client, "state").await.as_deref(), Some("good"));
}
