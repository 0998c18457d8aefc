//! Elections that are stuck, shaky or unguarded, and what the doctor response: every finding about
//! candidates and sessions is provoked here.

use std::time::Duration;

use crate::patients::{elect, elect_with, examine, has};
use rustix::process::Signal;
use tenure::api::wire::tenure::v1;
use tenure_e2e::session::{SessionStream, connect, elections};
use tenure_e2e::{Cluster, Ctl, eventually, pb, reserve, tools};
use tokio::net::{TcpListener, TcpStream};

const LONG_MS: u64 = 30_000;

async fn session(cluster: &Cluster, identity: &str) -> SessionStream {
    let channel = connect(cluster.members[0].client).await;
    SessionStream::open(channel, identity, LONG_MS, false).await
}

fn join(name: &str) -> v1::Join {
    v1::Join { names: vec![name.into()], ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_a_frozen_election_and_the_way_out() {
    let cluster = Cluster::start(1).await;
    let _alice = elect(&cluster.endpoints(), "jobs", "alice").await;
    let ctl = Ctl::of(&cluster).with_program(tools::tenure());
    ctl.run(&["freeze", "jobs"]).ok();
    let report = has(&cluster.endpoints(), &[], "frozen").await;
    assert_eq!((report.code, report.level("frozen")), (Some(1), "warning".into()));
    assert_eq!(report.finding("frozen")["next"], "tenure resume jobs");
}

/// An evicted leader has not confirmed that it stopped. A candidate that wants no overlap waits, and is told why.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_tells_what_a_lock_delay_waits_for() {
    let cluster = Cluster::start(1).await;
    let mut alice = session(&cluster, "alice").await;
    alice.join("jobs").await;
    let token = alice.granted("jobs").await.candidacy.unwrap().token;
    let mut door = elections(cluster.members[0].client).await;
    let evict = v1::EvictRequest { name: "jobs".into(), token };
    door.evict(evict).await.unwrap();

    // No candidate is left: it is reported only if asked for by name.
    let report = has(&cluster.endpoints(), &["jobs"], "lock_delay").await;
    assert_eq!((report.code, report.level("lock_delay")), (Some(0), "note".into()));
    let left = report.json["elections"][0]["delay_ms"].as_u64().unwrap();
    assert!(left <= LONG_MS, "{left}");

    let mut bob = session(&cluster, "bob").await;
    bob.join_as(v1::Join { no_overlap: true, ..join("jobs") }).await;
    let report = has(&cluster.endpoints(), &[], "lock_delay").await;
    assert_eq!((report.code, report.level("lock_delay")), (Some(1), "warning".into()));
    let text = report.finding("lock_delay")["text"].as_str().unwrap().to_owned();
    for part in ["bob is first in jobs", "alice", "evicted"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_elections_whose_candidates_are_all_unhealthy() {
    let cluster = Cluster::start(1).await;
    let mut alice = session(&cluster, "alice").await;
    alice.join_as(v1::Join { unhealthy: true, ..join("jobs") }).await;
    let report = has(&cluster.endpoints(), &[], "all_unhealthy").await;
    assert_eq!((report.code, report.level("all_unhealthy")), (Some(1), "critical".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_notes_a_hand_over_that_is_under_way() {
    let cluster = Cluster::start(1).await;
    let (mut alice, mut bob) = (session(&cluster, "alice").await, session(&cluster, "bob").await);
    alice.join("jobs").await;
    alice.granted("jobs").await;
    bob.join("jobs").await;
    let transfer = v1::TransferRequest {
        name: "jobs".into(),
        identity: "bob".into(),
        within_ms: LONG_MS,
        ..Default::default()
    };
    elections(cluster.members[0].client).await.transfer(transfer).await.unwrap();
    let report = has(&cluster.endpoints(), &[], "draining").await;
    assert_eq!((report.code, report.level("draining")), (Some(0), "note".into()));
    assert_eq!(report.json["elections"][0]["successor"], "bob");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_leaders_by_etcds_means_without_fence_or_end() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let lease = pb::LeaseGrantRequest { ttl: 60, id: 0x77 };
    let mut grants =
        tenure::grpc::stubs::LeaseClient::new(connect(cluster.members[0].client).await);
    grants.lease_grant(lease).await.unwrap();
    let put = pb::PutRequest { key: "jobs/77".into(), lease: 0x77, ..Default::default() };
    client.kv().put(put).await.unwrap();
    let report = has(&cluster.endpoints(), &[], "stock_holder").await;
    assert_eq!((report.code, report.level("stock_holder")), (Some(0), "note".into()));

    // A key by hand stands first for ever.
    let put = pb::PutRequest { key: "batch/by-hand".into(), ..Default::default() };
    client.kv().put(put).await.unwrap();
    let _alice = elect(&cluster.endpoints(), "batch", "alice").await;
    let report = has(&cluster.endpoints(), &["batch"], "holder_without_lease").await;
    assert_eq!((report.code, report.level("holder_without_lease")), (Some(1), "warning".into()));
    // It has no session, and no successor was chosen: these two are not the same.
    assert!(!report.kinds().contains(&"draining".into()), "{:?}", report.kinds());
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_an_election_that_keeps_losing_its_leader() {
    let cluster = Cluster::start(1).await;
    let ctl = Ctl::of(&cluster).with_program(tools::tenure());
    for n in 0..4 {
        let identity = format!("c{n}");
        let flags = ["--fast-release"];
        drop(elect_with(&cluster.endpoints(), "jobs", &identity, &flags).await);
        eventually("its end is known", async || {
            let said = ctl.run(&["history", "jobs"]).out;
            let ended = said
                .lines()
                .any(|line| line.starts_with(&identity) && line.ends_with("connection reset)"));
            if ended { Ok(()) } else { Err(said) }
        })
        .await;
    }
    let report = has(&cluster.endpoints(), &["jobs"], "unsteady").await;
    assert_eq!((report.code, report.level("unsteady")), (Some(1), "warning".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_a_paused_leader_before_its_session_ends() {
    let cluster = Cluster::start(1).await;
    let alice = elect_with(&cluster.endpoints(), "jobs", "alice", &["--ttl", "6s"]).await;
    alice.signal(Signal::STOP);
    let report = has(&cluster.endpoints(), &[], "session_near_end").await;
    assert_eq!((report.code, report.level("session_near_end")), (Some(1), "warning".into()));
    let text = report.finding("session_near_end")["text"].as_str().unwrap().to_owned();
    assert!(text.contains("alice, which holds jobs"), "{text}");
}

/// Between this machine and the cluster every byte takes long, so short sessions are in danger.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_a_session_that_is_too_short_for_the_way() {
    const ONE_WAY: Duration = Duration::from_millis(150);
    let cluster = Cluster::start(1).await;
    let _alice = elect_with(&cluster.endpoints(), "jobs", "alice", &["--ttl", "5s"]).await;
    let near = examine(&cluster.endpoints(), &[]);
    assert!(!near.kinds().contains(&"ttl_too_short".into()), "{:?}", near.kinds());
    let far = slow_way(cluster.members[0].client, ONE_WAY).await;
    let report = has(&far, &[], "ttl_too_short").await;
    assert_eq!((report.code, report.level("ttl_too_short")), (Some(1), "warning".into()));
}

/// Looking at everything takes time; what was not looked at is said.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_counts_names_that_are_left_out() {
    let cluster = Cluster::start(1).await;
    let mut grants =
        tenure::grpc::stubs::LeaseClient::new(connect(cluster.members[0].client).await);
    grants.lease_grant(pb::LeaseGrantRequest { ttl: 600, id: 0x77 }).await.unwrap();
    let client = cluster.client();
    for n in 0..503 {
        let key = format!("job-{n:03}/77").into();
        client.kv().put(pb::PutRequest { key, lease: 0x77, ..Default::default() }).await.unwrap();
    }
    let report = has(&cluster.endpoints(), &[], "left_out").await;
    assert!(report.finding("left_out")["text"].as_str().unwrap().starts_with("3 names"));
    assert_eq!(report.json["elections"].as_array().unwrap().len(), 500);
}

/// An address from which everything arrives late.
async fn slow_way(to: tenure_e2e::Address, one_way: Duration) -> String {
    let at = reserve(1)[0];
    let listener = TcpListener::bind((at.ip, at.port)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect((to.ip, to.port)).await.unwrap();
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            tokio::spawn(late(near_in, far_out, one_way));
            tokio::spawn(late(far_in, near_out, one_way));
        }
    });
    at.to_string()
}

async fn late(
    from: tokio::net::tcp::OwnedReadHalf,
    to: tokio::net::tcp::OwnedWriteHalf,
    one_way: Duration,
) {
    let mut bytes = [0; 4096];
    loop {
        from.readable().await.unwrap();
        match from.try_read(&mut bytes) {
            Ok(0) => return,
            Ok(count) => {
                tokio::time::sleep(one_way).await;
                let mut rest = &bytes[..count];
                while !rest.is_empty() {
                    to.writable().await.unwrap();
                    match to.try_write(rest) {
                        Ok(written) => rest = &rest[written..],
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                        Err(_) => return,
                    }
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
