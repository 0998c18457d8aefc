//! Members that die at the worst moment. What was acknowledged must be there afterwards, once.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tenure::grpc::{Client, Options};
use tenure_e2e::{Cluster, Load, Member, Plan, pb};

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

#[tokio::test(flavor = "multi_thread")]
async fn it_keeps_acknowledged_writes_through_kill_9_of_a_single_member() {
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

#[tokio::test(flavor = "multi_thread")]
async fn it_keeps_acknowledged_writes_through_kill_9_of_any_of_three() {
    // Small snapshots, so that restarts also come up from one.
    let mut cluster = Cluster::with(3, Plan::flags(&["--snapshot-count", "150"])).await;
    let load = Load::start("load", writers(&cluster));
    for round in 0..6 {
        load.progress(BETWEEN).await;
        let leader = cluster.leader().await;
        let victim = if round % 3 == 2 { cluster.other_than(leader) } else { leader };
        cluster.members[victim].kill();
        load.progress(BETWEEN / 2).await;
        cluster.members[victim].start();
        cluster.members[victim].ready().await;
    }
    let record = load.stop().await;
    record.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_keeps_acknowledged_writes_when_all_members_are_killed_at_once() {
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
async fn it_fails_no_request_of_other_members_when_the_leader_is_told_to_stop() {
    let mut cluster = Cluster::start(3).await;
    for round in 0..3 {
        let leader = cluster.leader().await;
        let others = (0..3).filter(|at| *at != leader);
        let clients = others.flat_map(|at| [(); 4].map(|()| cluster.members[at].client())).collect();
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
async fn it_fails_no_request_when_the_leader_is_moved() {
    let cluster = Cluster::start(3).await;
    let clients = (0..9).map(|n| cluster.members[n % 3].client()).collect();
    let load = Load::start("load", clients);
    for _ in 0..6 {
        load.progress(BETWEEN).await;
        let from = cluster.leader().await;
        let to = cluster.other_than(from);
        let request = pb::MoveLeaderRequest { target_id: cluster.id(to).await };
        cluster.members[from].client().maintenance().move_leader(request).await.unwrap();
        assert_eq!(cluster.leader().await, to);
    }
    let record = load.stop().await;
    record.assert_no_failure();
    record.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_answers_writes_within_a_second_of_the_leader_being_killed() {
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
    // The kernel closes the dead leader's connections, so nobody waits for an election timeout.
    assert!(killed.elapsed() < Duration::from_secs(1), "{:?}, {tries} failed", killed.elapsed());
}
