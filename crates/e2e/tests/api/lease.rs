//! Leases: how long they last, whatever happens meanwhile.
//!
//! The lower bound is safety: a lease must not end before its TTL has passed since the last
//! acknowledged renewal was *sent*. The upper bound is generous, because machines are busy.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tenure::grpc::Client;
use tenure_e2e::{Cluster, Member, Plan, Watcher, eventually, pb, tools};
use tokio::task::JoinHandle;

/// How late an expiry may be noticed.
const LATE_MAX: Duration = Duration::from_secs(2);

async fn grant(client: &Client, ttl: i64) -> i64 {
    let granted = client.lease().grant(pb::LeaseGrantRequest { ttl, id: 0 }).await.unwrap();
    assert_eq!(granted.ttl, ttl);
    granted.id
}

async fn put(client: &Client, key: &str, lease: i64) {
    let put = pb::PutRequest { key: key.to_owned().into(), lease, ..Default::default() };
    client.kv().put(put).await.unwrap();
}

/// A watch of one prefix from now on.
async fn watch(client: &Client, prefix: &str) -> Watcher {
    let mut watcher = Watcher::open(client, false).await.unwrap();
    let create = pb::WatchCreateRequest {
        key: format!("{prefix}/").into(),
        range_end: format!("{prefix}0").into(),
        filters: vec![pb::watch_create_request::FilterType::Noput as i32],
        ..Default::default()
    };
    watcher.create(create).await;
    assert!(watcher.next().await.created);
    watcher
}

/// Renews one lease until told to stop; a member that does not answer is left for the next.
struct Renewer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<Instant, String>>,
}

impl Renewer {
    fn start(cluster: &Cluster, lease: i64, every: Duration) -> Renewer {
        let mut clients: VecDeque<_> = cluster.members.iter().map(Member::client).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let task = tokio::spawn(async move {
            let mut last_sent = Instant::now();
            while !told.load(Ordering::Relaxed) {
                let sent = Instant::now();
                match renew(&clients[0], lease).await {
                    Some(0) => {
                        return Err(format!("gone {:?} after a renewal", last_sent.elapsed()));
                    }
                    Some(_) => {
                        last_sent = sent;
                        tokio::time::sleep(every).await;
                    }
                    None => clients.rotate_left(1),
                }
            }
            Ok(last_sent)
        });
        Renewer { stop, task }
    }

    /// When the last acknowledged renewal was sent.
    async fn stop(self) -> Instant {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap().expect("a live lease must not end")
    }
}

/// One renewal on a stream of its own: the TTL, or nothing if no member answered.
async fn renew(client: &Client, lease: i64) -> Option<i64> {
    let once = async { client.lease().renewals(lease).await.ok()?.answer().await.ok() };
    let answer = tokio::time::timeout(Duration::from_millis(500), once).await.ok()??;
    Some(answer.ttl)
}

/// Keeping a lease alive takes no revision and no room, however often.
#[tokio::test(flavor = "multi_thread")]
async fn renewals_leave_nothing_behind_in_the_store() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let lease = grant(&client, 60).await;
    put(&client, "held", lease).await;
    let size = async || {
        let status = client.maintenance().status().await.unwrap();
        (status.header.unwrap().revision, status.db_size_in_use)
    };
    // What is said of a member may be a moment old.
    let before = eventually("the put is counted", async || match size().await {
        counted if counted.0 > 1 => Ok(counted),
        other => Err(format!("{other:?}")),
    })
    .await;
    let mut renewals = client.lease().renewals(lease).await.unwrap();
    for _ in 0..200 {
        assert_eq!(renewals.answer().await.unwrap().ttl, 60);
        renewals.renew().await.unwrap();
    }
    assert_eq!(size().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_keeps_a_lease_of_one_second_for_one_second() {
    for count in [1, 3] {
        let cluster = Cluster::start(count).await;
        let client = cluster.client();
        let mut watcher = watch(&client, "k").await;
        let lease = grant(&client, 1).await;
        put(&client, "k/1", lease).await;
        let renewed = Instant::now();
        assert_eq!(renew(&client, lease).await, Some(1));
        let gone = watcher.next().await;
        let lived = renewed.elapsed();
        assert_eq!(gone.events.len(), 1);
        assert!(lived >= Duration::from_secs(1), "cut after {lived:?}");
        assert!(lived < Duration::from_secs(1) + LATE_MAX, "noticed only after {lived:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_answers_for_a_lease_that_is_gone_without_an_error() {
    let cluster = Cluster::start(3).await;
    for member in &cluster.members {
        let client = member.client();
        let lease = grant(&client, 60).await;
        client.lease().revoke(lease).await.unwrap();
        assert_eq!(renew(&client, lease).await, Some(0), "a renewal of nothing is answered with 0");
        let request = pb::LeaseTimeToLiveRequest { id: lease, keys: true };
        let left = client.lease().time_to_live(request).await.unwrap();
        assert_eq!((left.ttl, left.granted_ttl, left.id), (-1, 0, lease));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_deletes_the_keys_of_a_lease_in_one_revision_in_order() {
    let cluster = Cluster::start(3).await;
    let client = cluster.client();
    let mut watcher = watch(&client, "k").await;
    for how in ["revoked", "expired"] {
        let lease = grant(&client, if how == "revoked" { 60 } else { 1 }).await;
        for key in ["k/c", "k/a", "k/d", "k/b"] {
            put(&client, key, lease).await;
        }
        if how == "revoked" {
            client.lease().revoke(lease).await.unwrap();
        }
        let gone = watcher.next().await;
        let keys: Vec<_> = gone.events.iter().map(|event| event.kv.clone().unwrap()).collect();
        let names: Vec<_> = keys.iter().map(|kv| &kv.key[..]).collect();
        assert_eq!(names, [b"k/a", b"k/b", b"k/c", b"k/d"], "{how}");
        assert!(keys.iter().all(|kv| kv.mod_revision == keys[0].mod_revision), "{how}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_neither_stretches_nor_cuts_leases_when_the_raft_leader_is_killed() {
    const TTL: Duration = Duration::from_secs(4);
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let client = cluster.members[cluster.other_than(leader)].client();
    let mut watcher = watch(&client, "dead").await;

    let living = grant(&client, 2).await;
    put(&client, "live/1", living).await;
    let renewer = Renewer::start(&cluster, living, Duration::from_millis(400));

    let dead = grant(&client, TTL.as_secs() as i64).await;
    put(&client, "dead/1", dead).await;
    let renewed = Instant::now();
    assert_eq!(renew(&client, dead).await, Some(4));
    tokio::time::sleep_until((renewed + TTL / 2).into()).await;
    cluster.members[leader].kill();

    let gone = watcher.next().await;
    let lived = renewed.elapsed();
    assert_eq!(gone.events.len(), 1);
    assert!(lived >= TTL, "cut after {lived:?}");
    assert!(lived < TTL + LATE_MAX, "a new raft leader stretched it to {lived:?}");
    renewer.stop().await;
    let range = pb::RangeRequest { key: "live/1".into(), ..Default::default() };
    assert_eq!(client.kv().range(range).await.unwrap().count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_cuts_no_live_lease_after_the_process_was_stopped_for_ten_seconds() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let lease = grant(&client, 2).await;
    put(&client, "k/1", lease).await;
    let renewer = Renewer::start(&cluster, lease, Duration::from_millis(300));
    let mut watcher = watch(&client, "k").await;
    cluster.members[0].pause();
    tokio::time::sleep(Duration::from_secs(10)).await;
    cluster.members[0].resume();
    // Two more TTLs: long enough for a wrong deadline to strike.
    assert!(watcher.is_silent(Duration::from_secs(4)).await, "a live lease was cut");
    cluster.members[0].logs("did not run").await;
    let last_sent = renewer.stop().await;
    assert_eq!(watcher.next().await.events.len(), 1, "and it ends when nobody renews it");
    assert!(last_sent.elapsed() >= Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_cuts_no_live_lease_when_a_stopped_raft_leader_comes_back() {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let others: Vec<_> = (0..3).filter(|at| *at != leader).collect();
    let client = cluster.members[others[0]].client();
    let lease = grant(&client, 2).await;
    put(&client, "k/1", lease).await;
    let renewer = Renewer::start(&cluster, lease, Duration::from_millis(300));
    let mut watcher = watch(&client, "k").await;
    cluster.members[leader].pause();
    let next = cluster.leader_among(&others).await;
    assert_ne!(next, leader);
    tokio::time::sleep(Duration::from_secs(4)).await;
    cluster.members[leader].resume();
    assert!(watcher.is_silent(Duration::from_secs(4)).await, "a live lease was cut");
    renewer.stop().await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_does_not_care_what_the_wall_clock_says() {
    let home = tempfile::tempdir().unwrap();
    let clock = home.path().join("clock");
    let mut plan = Plan::default();
    plan.spawn.env = tools::wall_clock(&clock);
    let cluster = Cluster::with(3, plan).await;
    let client = cluster.client();
    let mut watcher = watch(&client, "dead").await;
    let living = grant(&client, 2).await;
    put(&client, "live/1", living).await;
    let renewer = Renewer::start(&cluster, living, Duration::from_millis(300));
    let dead = grant(&client, 4).await;
    put(&client, "dead/1", dead).await;
    let renewed = Instant::now();
    assert_eq!(renew(&client, dead).await, Some(4));
    for jump in ["+5h", "-3h", "+700d", "+0"] {
        std::fs::write(&clock, jump).unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(watcher.next().await.events.len(), 1);
    let lived = renewed.elapsed();
    assert!(lived >= Duration::from_secs(4), "cut after {lived:?}");
    assert!(lived < Duration::from_secs(4) + LATE_MAX, "stretched to {lived:?}");
    renewer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_gives_leases_a_full_ttl_after_a_restart_and_then_ends_them() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client();
    let lease = grant(&client, 2).await;
    put(&client, "k/1", lease).await;
    cluster.members[0].kill();
    let restarted = Instant::now();
    cluster.members[0].start();
    cluster.members[0].ready().await;
    let range = pb::RangeRequest { key: "k/1".into(), ..Default::default() };
    eventually("the lease ends", async || {
        let found = client.kv().range(range.clone()).await.map_err(|error| error.to_string())?;
        if found.count == 0 { Ok(()) } else { Err("still there".to_owned()) }
    })
    .await;
    let lived = restarted.elapsed();
    assert!(lived >= Duration::from_secs(2), "cut after {lived:?}");
    assert!(lived < Duration::from_secs(2) + 2 * LATE_MAX, "still there after {lived:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_ends_thousands_of_leases_together_and_none_early() {
    const LEASES: usize = 2000;
    const TTL: Duration = Duration::from_secs(3);
    let cluster = Cluster::start(3).await;
    let mut watcher = watch(&cluster.client(), "k").await;
    let grants = (0..LEASES).map(|n| {
        let client = cluster.members[n % 3].client();
        tokio::spawn(async move {
            let sent = Instant::now();
            let lease = grant(&client, TTL.as_secs() as i64).await;
            put(&client, &format!("k/{n}"), lease).await;
            (format!("k/{n}"), sent)
        })
    });
    let mut sent = std::collections::BTreeMap::new();
    for grant in grants.collect::<Vec<_>>() {
        let (key, at) = grant.await.unwrap();
        sent.insert(key, at);
    }
    let last = *sent.values().max().unwrap();
    let mut gone = 0;
    while gone < LEASES {
        for event in watcher.next().await.events {
            let key = String::from_utf8(event.kv.unwrap().key.to_vec()).unwrap();
            assert!(sent[&key].elapsed() >= TTL, "{key} was cut after {:?}", sent[&key].elapsed());
            gone += 1;
        }
    }
    assert!(last.elapsed() < TTL + LATE_MAX, "the last one ended after {:?}", last.elapsed());
}
