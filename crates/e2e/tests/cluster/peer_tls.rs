//! TLS between members: from the start, and turned on for a cluster that runs.

use std::{
    fs,
    time::{Duration, Instant},
};

use tenure::grpc::Client;
use tenure_e2e::{Certs, Cluster, Load, Plan, Spawn, eventually, pb};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Writes between two steps.
const BETWEEN: usize = 100;
/// Far more than a failover takes on a busy machine, and less than it takes if the end of the connection is not noticed.
const FAILOVER_MAX: Duration = Duration::from_secs(10);

async fn put(client: &Client, key: &str) {
    let put = pb::PutRequest { key: key.to_owned().into(), ..Default::default() };
    client.kv().put(put).await.unwrap();
}

/// Whether what says hello in the clear is answered.
async fn answers_in_the_clear(cluster: &Cluster, at: usize) -> bool {
    let peer = cluster.members[at].peer;
    let mut stream = TcpStream::connect((peer.ip, peer.port)).await.unwrap();
    // The question for the members: length, checksum, kind 8, and what it says.
    let payload = b"tenure-peer\x01\0\0\0";
    let mut sealed = vec![8];
    sealed.extend_from_slice(payload);
    let crc = crc32(&sealed);
    let mut frame = (payload.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&crc.to_le_bytes());
    frame.extend_from_slice(&sealed);
    stream.write_all(&frame).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    // An alert of TLS is no answer.
    answer.len() > 9 && answer[8] == 9
}

/// CRC-32 as in zip files.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(!0, step)
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_tls_cluster_replaces_a_killed_raft_leader_and_a_lost_member() {
    let certs = Certs::new();
    let spawn = Spawn {
        peer_tls: Some(certs.clone()),
        flags: vec!["--snapshot-count".into(), "50".into()],
        ..Spawn::default()
    };
    let mut cluster = Cluster::with(3, Plan { spawn, ..Plan::default() }).await;
    let client = cluster.client();
    put(&client, "before").await;
    assert!(!answers_in_the_clear(&cluster, 0).await);
    let leader = cluster.leader().await;
    cluster.members[leader].kill();
    let begun = Instant::now();
    eventually("a write after the kill", async || {
        let put = pb::PutRequest { key: "after".into(), ..Default::default() };
        client.kv().put(put).await.map_err(|error| error.to_string())
    })
    .await;
    assert!(begun.elapsed() < FAILOVER_MAX, "{:?}", begun.elapsed());
    // What it missed comes as a snapshot, over a connection of its own.
    for number in 0..200 {
        put(&client, &format!("k{number}")).await;
    }
    cluster.members[leader].start();
    cluster.ready().await;
    cluster.same_everywhere().await;
}

/// The procedure of the page "Secure a cluster": twice around, and no request fails.
#[tokio::test(flavor = "multi_thread")]
async fn peer_tls_is_turned_on_for_a_running_cluster_without_a_failed_request() {
    let mut cluster = Cluster::start(3).await;
    let certs = Certs::new();
    let load = Load::start("load", (0..4).map(|_| cluster.client()).collect());
    assert!(answers_in_the_clear(&cluster, 0).await);
    for flags in [vec!["--peer-allow-insecure".to_owned()], vec![]] {
        for at in 0..3 {
            load.progress(BETWEEN).await;
            assert!(cluster.members[at].stop().await.success());
            let member = &mut cluster.members[at];
            member.spawn.peer_tls = Some(certs.clone());
            member.spawn.flags.clone_from(&flags);
            let secured = member.initial_cluster().replace("http://", "https://");
            member.set_initial_cluster(&secured);
            member.start();
            member.ready().await;
        }
    }
    load.progress(BETWEEN).await;
    let record = load.stop().await;
    record.assert_no_failure();
    record.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;
    for at in 0..3 {
        assert!(!answers_in_the_clear(&cluster, at).await, "member {at}");
    }
}

/// As in etcd, files are written over, and no member is restarted.
#[tokio::test(flavor = "multi_thread")]
async fn peer_tls_certificates_are_renewed_without_a_restart() {
    let certs = Certs::new();
    let spawn =
        Spawn { tls: Some(certs.clone()), peer_tls: Some(certs.clone()), ..Spawn::default() };
    let mut cluster = Cluster::with(3, Plan { spawn, ..Plan::default() }).await;
    let client = cluster.client();
    put(&client, "before").await;
    for member in &cluster.members {
        certs.issue(&member.name, &[member.client.ip.to_string()]);
    }
    // The next connections are made with them.
    let follower = cluster.other_than(cluster.leader().await);
    cluster.members[follower].kill();
    cluster.members[follower].start();
    cluster.ready().await;
    put(&cluster.client(), "after").await;
    cluster.same_everywhere().await;
    let other = cluster.other_than(follower);
    cluster.members[other].logs("certificates were read again").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_secret_cluster_takes_a_new_secret_without_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("secret");
    let (old, new) = ("the old one, long enough\n", "the new one, long enough\n");
    fs::write(&file, old).unwrap();
    let flags = vec!["--peer-secret-file".to_owned(), file.display().to_string()];
    let spawn = Spawn { flags, ..Spawn::default() };
    let mut cluster = Cluster::with(3, Plan { spawn, ..Plan::default() }).await;
    put(&cluster.client(), "before").await;
    assert!(!answers_in_the_clear(&cluster, 0).await);
    for step in [format!("{old}{new}"), format!("{new}{old}"), new.to_owned()] {
        fs::write(&file, step).unwrap();
        let follower = cluster.other_than(cluster.leader().await);
        cluster.members[follower].kill();
        cluster.members[follower].start();
        cluster.ready().await;
        put(&cluster.client(), "after").await;
    }
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_auto_tls_encrypts_with_pairs_that_members_make() {
    let certs = Certs::new();
    let mut cluster = Cluster::prepare(3, Plan::flags(&["--peer-auto-tls"]));
    // Only for https:// in the URLs.
    for member in &mut cluster.members {
        let peers = member.initial_cluster().replace("http://", "https://");
        member.set_initial_cluster(&peers);
        member.spawn.flags.extend(["--listen-peer-urls".to_owned(), member.peer.https()]);
    }
    drop(certs);
    cluster.members.iter_mut().for_each(tenure_e2e::Member::start);
    cluster.ready().await;
    put(&cluster.client(), "k").await;
    assert!(!answers_in_the_clear(&cluster, 0).await);
    let pair = cluster.members[0].data_dir.join("fixtures/peer");
    assert!(pair.join("key.pem").exists());
}
