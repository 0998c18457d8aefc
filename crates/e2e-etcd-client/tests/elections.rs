//! Elections and locks as the etcd-client crate asks for them, in one line with etcdctl,
//! plain calls and our library.
#![allow(clippy::unwrap_used)]

use std::{
    process::{Child, Stdio},
    time::Duration,
};

use etcd_client::{Client, LockOptions, ProclaimOptions, ResignOptions};
use tenure::{Election, Engine, Session, fence::FencingToken};
use tenure_e2e::{Caller, Cluster, Ctl};

const TTL: i64 = 600;

async fn connect(cluster: &Cluster, at: usize) -> Client {
    Client::connect([cluster.members[at].client.to_string()], None).await.unwrap()
}

async fn lease(client: &mut Client) -> i64 {
    client.lease_grant(TTL, None).await.unwrap().id()
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_client_locks_and_unlocks() {
    let cluster = Cluster::start(3).await;
    let mut client = connect(&cluster, 0).await;
    let lease = lease(&mut client).await;
    let held = client.lock("door", Some(LockOptions::new().with_lease(lease))).await.unwrap();
    assert_eq!(held.key(), format!("door/{lease:x}").as_bytes());
    client.unlock(held.key()).await.unwrap();
    client.unlock(held.key()).await.unwrap();
    // Without a lease it is the server's, which ends with the hold.
    let held = client.lock("door", None).await.unwrap();
    client.unlock(held.key()).await.unwrap();
    assert_eq!(client.leases().await.unwrap().leases().len(), 1);
    let unknown = client.lock("door", Some(LockOptions::new().with_lease(4711))).await;
    let error = unknown.unwrap_err().to_string();
    assert!(error.contains("etcdserver: requested lease not found"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_client_elects_proclaims_observes_and_resigns() {
    let cluster = Cluster::start(3).await;
    let mut client = connect(&cluster, 1).await;
    let lease = lease(&mut client).await;
    let none = client.leader("office").await.unwrap_err().to_string();
    assert!(none.contains("election: no leader"), "{none}");
    let elected = client.campaign("office", "me", lease).await.unwrap();
    let key = elected.leader().unwrap().clone();
    let mut observed = client.observe("office").await.unwrap();
    let heard = observed.message().await.unwrap().unwrap();
    assert_eq!(heard.kv().unwrap().value_str().unwrap(), "me");
    let proclaim = ProclaimOptions::new().with_leader(key.clone());
    client.proclaim("still me", Some(proclaim.clone())).await.unwrap();
    let heard = observed.message().await.unwrap().unwrap();
    assert_eq!(heard.kv().unwrap().value_str().unwrap(), "still me");
    for _ in 0..2 {
        let resign = ResignOptions::new().with_leader(key.clone());
        client.resign(Some(resign)).await.unwrap();
    }
    let deposed = client.proclaim("me again", Some(proclaim)).await.unwrap_err().to_string();
    assert!(deposed.contains("election: not leader"), "{deposed}");
}

fn etcdctl(cluster: &Cluster) -> Child {
    let mut command = Ctl::of(cluster).command(&["elect", "office", "etcdctl"]);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().unwrap()
}

/// etcdctl, our library, the crate and a plain call in one line, on all members.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_client_waits_in_one_queue_with_others() {
    let cluster = Cluster::start(3).await;
    let looker = Caller::new(cluster.members[0].client());
    let mut first = etcdctl(&cluster);
    looker.has_candidates("office", 1).await;
    let engine = Engine::tenure(&cluster.endpoints()).unwrap();
    let session = Session::open(&engine, Duration::from_secs(TTL as u64)).await.unwrap();
    let candidate = Election::new(&session, "office").unwrap().candidate("library");
    let second = tokio::spawn(candidate.campaign());
    looker.has_candidates("office", 2).await;
    let mut client = connect(&cluster, 1).await;
    let lease = lease(&mut client).await;
    let mut waiting = client.clone();
    let third = tokio::spawn(async move { waiting.campaign("office", "crate", lease).await });
    looker.has_candidates("office", 3).await;
    let plain = Caller::new(cluster.members[2].client());
    let fourth = plain.campaign("office", plain.lease(TTL).await, "plain");
    let line = looker.has_candidates("office", 4).await;
    let nobody_yet = || !third.is_finished() && !fourth.is_answered();
    assert!(!second.is_finished() && nobody_yet(), "one leads");
    // etcdctl's process dies; an operator ends its session.
    first.kill().unwrap();
    first.wait().unwrap();
    looker.revoke(line[0].lease).await;
    let leadership = second.await.unwrap().unwrap();
    assert_eq!(Some(leadership.token()), FencingToken::from_revision(line[1].create_revision));
    assert!(nobody_yet(), "one leads");
    leadership.resign().await.unwrap();
    let elected = third.await.unwrap().unwrap();
    let leader = elected.leader().unwrap().clone();
    assert_eq!((leader.key(), leader.rev()), (&line[2].key[..], line[2].create_revision));
    assert!(!fourth.is_answered(), "one leads");
    client.resign(Some(ResignOptions::new().with_leader(leader))).await.unwrap();
    let elected = fourth.answer().await.unwrap();
    assert_eq!(elected.fencing_token, line[3].create_revision);
}

/// A candidate of the crate whose lease ends while it waits is refused; a real etcd elects it.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_client_is_not_elected_after_its_lease_ended() {
    let cluster = Cluster::start(3).await;
    let looker = Caller::new(cluster.members[0].client());
    looker.elected("office", looker.lease(TTL).await, "first").await;
    let mut client = connect(&cluster, 1).await;
    let lease = lease(&mut client).await;
    let mut waiting = client.clone();
    let second = tokio::spawn(async move { waiting.campaign("office", "crate", lease).await });
    looker.has_candidates("office", 2).await;
    client.lease_revoke(lease).await.unwrap();
    let error = second.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("election: session is expired"), "{error}");
}
