//! More work than the cluster can do: what is refused, and what is not.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tenure::grpc::Client;
use tenure_e2e::{Cluster, Member, eventually, pb, tools};
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(4);
const SESSIONS: usize = 60;
/// Many times what keeps the members busy.
const CLIENTS_PER_MEMBER: &str = "2000";

/// Load that goes on until it is dropped.
struct Flood(Vec<Child>);

impl Flood {
    fn start(cluster: &Cluster) -> Flood {
        let bench = |member: &Member| {
            Command::new(tools::tenure())
                .args(["--endpoints", &member.client.to_string(), "bench", "put"])
                .args(["--clients", CLIENTS_PER_MEMBER, "--total", "100000000"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        Flood(cluster.members.iter().map(bench).collect())
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Keeps one session alive as clients do, every third of its TTL; answers the longest wait.
async fn hold(client: Client, lease: i64, until: Instant) -> Duration {
    let mut worst = Duration::ZERO;
    let mut renewals = client.lease().renewals(lease).await.unwrap();
    assert!(renewals.answer().await.unwrap().ttl > 0);
    while Instant::now() < until {
        let sent = Instant::now();
        renewals.renew().await.unwrap();
        assert!(renewals.answer().await.unwrap().ttl > 0, "session {lease} was lost");
        worst = worst.max(sent.elapsed());
        tokio::time::sleep((TTL / 3).saturating_sub(sent.elapsed())).await;
    }
    worst
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_is_lost_under_many_times_the_load() {
    let cluster = Cluster::start(3).await;
    let mut leases = Vec::new();
    for member in (0..SESSIONS).map(|n| n % 3) {
        let client = cluster.members[member].client();
        let grant = pb::LeaseGrantRequest { ttl: TTL.as_secs() as i64, id: 0 };
        leases.push((client.lease().grant(grant).await.unwrap().id, client));
    }
    let before = cluster.status(0).await.unwrap().raft_applied_index;
    let flood = Flood::start(&cluster);
    let mut sessions = JoinSet::new();
    let until = Instant::now() + 4 * TTL;
    for (lease, client) in &leases {
        sessions.spawn(hold(client.clone(), *lease, until));
    }
    let worst = sessions.join_all().await.into_iter().max().unwrap();
    println!("longest wait of {SESSIONS} sessions for a renewal: {worst:?}");
    assert!(worst < TTL * 2 / 3, "a client that misses its second renewal steps down: {worst:?}");
    let after = cluster.status(0).await.unwrap().raft_applied_index;
    assert!(after > before + 100, "there was no load");
    drop(flood);
    eventually("ordinary writes are served again", async || {
        let put = pb::PutRequest { key: "after".into(), ..Default::default() };
        cluster.client().kv().put(put).await.map(drop).map_err(|cause| cause.to_string())
    })
    .await;
}
