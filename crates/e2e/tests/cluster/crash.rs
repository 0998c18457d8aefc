//! Members that die at the worst moment. What was acknowledged must be there afterwards, once.

use std::time::Duration;

use tenure::grpc::{Client, Options};
use tenure_e2e::{Cluster, Load, Member, Plan, Register, Watcher, pb};

/// Writers at a time.
const WRITERS: usize = 8;
/// Writes between two disasters.
const BETWEEN: usize = 100;

fn impatient() -> Options {
    Options { request_timeout: Duration::from_secs(3), ..Options::default() }
}

fn writers(cluster: &Cluster) -> Vec<Client> {
    (0..WRITERS).map(|_| cluster.client_with(impatient())).collect()
}

/// Forgets all but the newest ten revisions, if a member answers.
async fn compact(cluster: &Cluster) {
    let any = pb::RangeRequest { key: "any".into(), ..Default::default() };
    if let Ok(found) = cluster.client().kv().range(any).await {
        let revision = found.header.unwrap().revision - 10;
        let _ =
            cluster.client().kv().compact(pb::CompactionRequest { revision, physical: true }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_keeps_acknowledged_writes_through_kill_9_of_a_single_member() {
    let mut cluster = Cluster::start(1).await;
    let load = Load::start("load", writers(&cluster));
    for _ in 0..6 {
        load.progress(BETWEEN).await;
        cluster.members[0].kill();
        cluster.members[0].start();
    }
    load.progress(BETWEEN).await;
    let record = load.stop().await;
    record.check(&cluster.client(), "load").await;
}

/// Three of seven may be gone at once, the raft leader among them.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_serves_on_when_three_of_seven_are_killed() {
    let mut cluster = Cluster::start(7).await;
    let load = Load::start("load", writers(&cluster));
    load.progress(BETWEEN).await;
    let leader = cluster.leader().await;
    let victims: Vec<usize> = (0..3).map(|step| (leader + 2 * step) % 7).collect();
    for victim in &victims {
        cluster.members[*victim].kill();
    }
    let others: Vec<usize> = (0..7).filter(|other| !victims.contains(other)).collect();
    cluster.leader_among(&others).await;
    load.progress(BETWEEN).await;
    for victim in &victims {
        cluster.members[*victim].start();
        cluster.members[*victim].ready().await;
    }
    load.stop().await.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_keeps_acknowledged_writes_through_kill_9_of_any_of_three() {
    // Small snapshots, so that restarts also come up from one.
    let mut cluster = Cluster::with(3, Plan::flags(&["--snapshot-count", "150"])).await;
    let load = Load::start("load", writers(&cluster));
    let register = Register::start(&cluster, "register");
    for round in 0..6 {
        load.progress(BETWEEN).await;
        compact(&cluster).await;
        let leader = cluster.leader().await;
        let victim = if round % 3 == 2 { cluster.other_than(leader) } else { leader };
        cluster.members[victim].kill();
        load.progress(BETWEEN / 2).await;
        cluster.members[victim].start();
        cluster.members[victim].ready().await;
    }
    register.stop().await;
    let record = load.stop().await;
    record.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_keeps_acknowledged_writes_when_all_members_are_killed_at_once() {
    let mut cluster = Cluster::with(3, Plan::flags(&["--snapshot-count", "200"])).await;
    let load = Load::start("load", writers(&cluster));
    for _ in 0..3 {
        load.progress(2 * BETWEEN).await;
        cluster.members.iter_mut().for_each(Member::kill);
        cluster.members.iter_mut().for_each(Member::start);
        cluster.ready().await;
    }
    load.progress(BETWEEN).await;
    let record = load.stop().await;
    record.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_fails_no_request_of_other_members_when_the_leader_is_told_to_stop() {
    let mut cluster = Cluster::start(3).await;
    for round in 0..3 {
        let leader = cluster.leader().await;
        let others = (0..3).filter(|at| *at != leader);
        let clients =
            others.flat_map(|at| [(); 4].map(|()| cluster.members[at].client())).collect();
        let prefix = format!("round{round}");
        let load = Load::start(&prefix, clients);
        load.progress(BETWEEN).await;
        let ended = cluster.members[leader].stop().await;
        assert!(ended.success(), "{ended}");
        load.progress(BETWEEN).await;
        let record = load.stop().await;
        record.assert_no_failure();
        cluster.members[leader].start();
        cluster.members[leader].ready().await;
        record.check(&cluster.client(), &prefix).await;
    }
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_fails_no_request_when_the_leader_is_moved() {
    let cluster = Cluster::start(3).await;
    let clients = (0..9).map(|n| cluster.members[n % 3].client()).collect();
    let load = Load::start("load", clients);
    for _ in 0..6 {
        load.progress(BETWEEN).await;
        let next = cluster.other_than(cluster.leader().await);
        cluster.lead(next).await;
    }
    let record = load.stop().await;
    record.assert_no_failure();
    record.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_answers_writes_within_a_second_of_the_leader_being_killed() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let other = cluster.members[cluster.other_than(leader)].client();
    let put = |n: u32| pb::PutRequest { key: format!("k{n}").into(), ..Default::default() };
    other.kv().put(put(0)).await.unwrap();
    let killed = std::time::Instant::now();
    cluster.members[leader].kill();
    let mut tries = 0;
    while other.kv().put(put(tries)).await.is_err() {
        tries += 1;
    }
    // The kernel closes the dead leader's connections, so no member waits for an election timeout.
    assert!(killed.elapsed() < Duration::from_secs(1), "{:?}, {tries} failed", killed.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_reads_nothing_stale_from_a_leader_that_was_stopped() {
    let cluster = Cluster::start(3).await;
    let register = Register::start(&cluster, "register");
    for _ in 0..3 {
        let leader = cluster.leader().await;
        let others: Vec<_> = (0..3).filter(|at| *at != leader).collect();
        cluster.members[leader].pause();
        cluster.leader_among(&others).await;
        register.progress(200).await;
        cluster.members[leader].resume();
        cluster.leader().await;
        register.progress(20).await;
    }
    register.stop().await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_counts_each_compare_and_swap_once() {
    let mut cluster = Cluster::start(3).await;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let counters: Vec<_> = (0..6)
        .map(|_| tokio::spawn(count_up(cluster.client_with(impatient()), stop.clone())))
        .collect();
    for _ in 0..3 {
        let before = version(&cluster).await;
        tenure_e2e::eventually("the count goes on", async || {
            let now = version(&cluster).await;
            if now > before + 30 { Ok(()) } else { Err(format!("{now}")) }
        })
        .await;
        let leader = cluster.leader().await;
        cluster.members[leader].kill();
        cluster.members[leader].start();
        cluster.members[leader].ready().await;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let (mut sure, mut perhaps) = (0, 0);
    for counter in counters {
        let (won, unknown) = counter.await.unwrap();
        sure += won;
        perhaps += unknown;
    }
    let counted = version(&cluster).await;
    assert!((sure..=sure + perhaps).contains(&counted), "{counted}: {sure} and perhaps {perhaps}");
}

async fn version(cluster: &Cluster) -> i64 {
    let get = pb::RangeRequest { key: "count".into(), ..Default::default() };
    let found = cluster.client().kv().range(get).await.unwrap();
    found.kvs.first().map_or(0, |kv| kv.version)
}

/// Adds 1 to a version that was read before, as often as it can: certain successes, unknown outcomes.
async fn count_up(
    client: Client,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> (i64, i64) {
    let (mut won, mut unknown) = (0, 0);
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        let get = pb::RangeRequest { key: "count".into(), ..Default::default() };
        let Ok(found) = client.kv().range(get).await else { continue };
        let version = found.kvs.first().map_or(0, |kv| kv.version);
        let unchanged = pb::Compare {
            key: "count".into(),
            target: pb::compare::CompareTarget::Version as i32,
            target_union: Some(pb::compare::TargetUnion::Version(version)),
            ..Default::default()
        };
        let put = pb::PutRequest { key: "count".into(), ..Default::default() };
        let put = pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put)) };
        let txn =
            pb::TxnRequest { compare: vec![unchanged], success: vec![put], ..Default::default() };
        match client.kv().txn(txn).await {
            Ok(answer) => won += i64::from(answer.succeeded),
            Err(error) => unknown += i64::from(error.outcome_unknown()),
        }
    }
    (won, unknown)
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_tells_watchers_everything_once_and_in_order_while_leaders_die() {
    let mut cluster = Cluster::with(3, Plan::flags(&["--snapshot-count", "150"])).await;
    let leader = cluster.leader().await;
    let survivor = cluster.other_than(leader);
    let mut watcher = Watcher::open(&cluster.members[survivor].client(), false).await.unwrap();
    let create = pb::WatchCreateRequest {
        key: "load/".into(),
        range_end: "load0".into(),
        start_revision: 1,
        ..Default::default()
    };
    watcher.create(create).await;
    let load = Load::start("load", writers(&cluster));
    for _ in 0..3 {
        load.progress(BETWEEN).await;
        let others: Vec<_> = (0..3).filter(|at| *at != survivor).collect();
        for victim in others {
            cluster.members[victim].kill();
            cluster.members[victim].start();
            cluster.members[victim].ready().await;
        }
    }
    let record = load.stop().await;
    let last = *record.acknowledged.values().max().unwrap();
    let mut told = std::collections::BTreeMap::new();
    let mut newest = 0;
    while newest < last {
        for event in watcher.next().await.events {
            let kv = event.kv.unwrap();
            assert!(kv.mod_revision > newest, "{} after {newest}", kv.mod_revision);
            newest = kv.mod_revision;
            told.insert(String::from_utf8(kv.key.to_vec()).unwrap(), newest);
        }
    }
    for (key, revision) in &record.acknowledged {
        assert_eq!(told.get(key), Some(revision), "{key} was not told");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_serves_five_members_with_two_of_them_dead() {
    let mut cluster = Cluster::start(5).await;
    let load = Load::start("load", writers(&cluster));
    for _ in 0..2 {
        load.progress(BETWEEN).await;
        let alive: Vec<_> = (0..5).filter(|at| cluster.members[*at].runs()).collect();
        let leader = cluster.leader_among(&alive).await;
        cluster.members[leader].kill();
    }
    load.progress(BETWEEN).await;
    for member in &mut cluster.members {
        if !member.runs() {
            member.start();
        }
    }
    cluster.ready().await;
    let record = load.stop().await;
    record.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_stops_soon_although_clients_are_connected() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client();
    let mut watcher = Watcher::open(&client, false).await.unwrap();
    watcher.create(pb::WatchCreateRequest { key: "k".into(), ..Default::default() }).await;
    assert!(watcher.next().await.created);
    let load = Load::start("load", writers(&cluster));
    load.progress(BETWEEN).await;
    let told = std::time::Instant::now();
    let ended = cluster.members[0].stop().await;
    assert!(ended.success(), "{ended}");
    assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
    let record = load.stop().await;
    cluster.members[0].start();
    cluster.members[0].ready().await;
    record.check(&cluster.client(), "load").await;
}
