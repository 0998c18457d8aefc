//! Networks that drop packets without a word.

use std::time::{Duration, Instant};

use tenure::grpc::{Client, stubs::KvClient};
use tenure_e2e::{Cluster, Load, Network, Register, eventually, pb};
use tonic::{Code, Status, transport::Channel};

/// How soon a member must refuse what it cannot do.
const PROMPTLY: Duration = Duration::from_secs(2);

fn put(key: &str) -> pb::PutRequest {
    pb::PutRequest { key: key.to_owned().into(), ..Default::default() }
}

fn get(key: &str, serializable: bool) -> pb::RangeRequest {
    pb::RangeRequest { key: key.to_owned().into(), serializable, ..Default::default() }
}

/// Keys without retries.
fn raw(client: &Client) -> KvClient<Channel> {
    KvClient::new(client.channel())
}

/// Waits until a member says that it has no raft leader.
async fn leaderless(cluster: &Cluster, at: usize) {
    eventually("the member knows that it is alone", async || {
        let status = cluster.status(at).await.map_err(|error| error.to_string())?;
        if status.leader == 0 { Ok(()) } else { Err(format!("follows {:x}", status.leader)) }
    })
    .await;
}

fn is_no_leader(refused: &Status) {
    let said = (refused.code(), refused.message());
    assert_eq!(said, (Code::Unavailable, "etcdserver: no leader"));
}

/// A member that is alone refuses at once what needs the others, and serves the rest.
async fn serves_only_locally(cluster: &Cluster, alone: usize) {
    let mut kv = raw(&cluster.members[alone].client());
    let asked = Instant::now();
    is_no_leader(&kv.put(put("refused")).await.unwrap_err());
    is_no_leader(&kv.range(get("before", false)).await.unwrap_err());
    assert!(asked.elapsed() < PROMPTLY, "refused only after {:?}", asked.elapsed());
    let local = kv.range(get("before", true)).await.unwrap().into_inner();
    assert_eq!(local.count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_elects_anew_when_the_leader_is_cut_off_and_the_old_one_steps_down() {
    let network = Network::new(3);
    let cluster = network.cluster(&[]).await;
    let old = cluster.leader().await;
    let others: Vec<_> = (0..3).filter(|at| *at != old).collect();
    cluster.client().kv().put(put("before")).await.unwrap();
    cluster.same_everywhere().await;
    let load = Load::start("load", (0..6).map(|n| cluster.members[n % 3].client()).collect());
    let register = Register::start(&cluster, "register");
    load.progress(50).await;
    network.isolate(old);
    let new = cluster.leader_among(&others).await;
    assert_ne!(new, old);
    load.progress(50).await;
    leaderless(&cluster, old).await;
    serves_only_locally(&cluster, old).await;
    let record = load.stop().await;
    network.heal();
    cluster.leader().await;
    register.stop().await;
    cluster.same_everywhere().await;
    record.check(&cluster.members[old].client(), "load").await;
    assert_eq!(
        raw(&cluster.members[old].client())
            .range(get("refused", false))
            .await
            .unwrap()
            .into_inner()
            .count,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_is_not_disturbed_by_a_follower_that_comes_back() {
    let network = Network::new(3);
    let cluster = network.cluster(&[]).await;
    let leader = cluster.leader().await;
    let lost = cluster.other_than(leader);
    cluster.client().kv().put(put("before")).await.unwrap();
    cluster.same_everywhere().await;
    let term = cluster.status(leader).await.unwrap().raft_term;
    let connected = (0..3).filter(|at| *at != lost);
    let load = Load::start("load", connected.map(|at| cluster.members[at].client()).collect());
    network.isolate(lost);
    leaderless(&cluster, lost).await;
    serves_only_locally(&cluster, lost).await;
    load.progress(50).await;
    network.heal();
    cluster.members[lost].logs("connected").await;
    eventually("it follows again", async || {
        let status = cluster.status(lost).await.map_err(|error| error.to_string())?;
        if status.leader == 0 { Err("no leader".to_owned()) } else { Ok(()) }
    })
    .await;
    load.progress(50).await;
    let record = load.stop().await;
    record.assert_no_failure();
    cluster.same_everywhere().await;
    record.check(&cluster.client(), "load").await;
    // Pre-vote: a member that was away does not push the others into a new term.
    assert_eq!(cluster.status(leader).await.unwrap().raft_term, term);
    assert_eq!(cluster.leader().await, leader);
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_serves_on_when_two_members_cannot_see_each_other() {
    let network = Network::new(3);
    let cluster = network.cluster(&[]).await;
    // The leader and one follower lose each other; the third sees both.
    cluster.lead(0).await;
    let load = Load::start("load", [0, 0, 2, 2].map(|at| cluster.members[at].client()).to_vec());
    load.progress(50).await;
    network.cut(0, 1);
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        load.progress(20).await;
    }
    let record = load.stop().await;
    record.assert_no_failure();
    assert_eq!(cluster.leader_among(&[0, 2]).await, 0, "the leader was not unseated");
    network.heal();
    cluster.same_everywhere().await;
    record.check(&cluster.members[1].client(), "load").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_serves_on_when_a_follower_hears_nothing_but_is_heard() {
    let network = Network::new(3);
    let cluster = network.cluster(&[]).await;
    cluster.lead(0).await;
    let load = Load::start("load", [0, 0, 2, 2].map(|at| cluster.members[at].client()).to_vec());
    load.progress(50).await;
    network.cut_one_way(0, 1);
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        load.progress(20).await;
    }
    let record = load.stop().await;
    record.assert_no_failure();
    network.heal();
    cluster.same_everywhere().await;
    record.check(&cluster.members[1].client(), "load").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_replaces_a_leader_that_is_heard_but_hears_nobody() {
    let network = Network::new(3);
    let cluster = network.cluster(&[]).await;
    cluster.lead(0).await;
    cluster.client().kv().put(put("before")).await.unwrap();
    cluster.same_everywhere().await;
    network.cut_one_way(1, 0);
    network.cut_one_way(2, 0);
    leaderless(&cluster, 0).await;
    let new = cluster.leader_among(&[1, 2]).await;
    assert_ne!(new, 0);
    cluster.members[new].client().kv().put(put("after")).await.unwrap();
    serves_only_locally(&cluster, 0).await;
    network.heal();
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_reads_nothing_stale_from_a_leader_that_slept_through_its_replacement() {
    let network = Network::new(3);
    let cluster = network.cluster(&[]).await;
    let old = cluster.leader().await;
    let others: Vec<_> = (0..3).filter(|at| *at != old).collect();
    let register = Register::start(&cluster, "register");
    register.progress(20).await;
    // No member can tell it what happened meanwhile: when it wakes up it believes that it leads.
    cluster.members[old].pause();
    network.isolate(old);
    cluster.leader_among(&others).await;
    register.progress(50).await;
    cluster.members[old].resume();
    leaderless(&cluster, old).await;
    network.heal();
    register.progress(50).await;
    register.stop().await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_serves_over_a_network_that_loses_packets() {
    let network = Network::new(3);
    let cluster = network.cluster(&[]).await;
    let load = Load::start("load", (0..6).map(|n| cluster.members[n % 3].client()).collect());
    let register = Register::start(&cluster, "register");
    network.lose(0.03);
    load.progress(150).await;
    register.stop().await;
    let record = load.stop().await;
    network.heal();
    // A retransmission may outlast an election timeout: some requests may fail, none may be lost.
    record.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;
}
