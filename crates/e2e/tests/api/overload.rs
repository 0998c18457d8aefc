//! More work than a member takes: what is refused, and what is not.
//!
//! A member does not read more than it takes in, and lets 10,000 calls about keys be open; beyond that, connections with many of
//! them begin no more. To see what happens then, a test has to ask for more at once, so the flood is many streams on
//! few connections, each with one put under way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tenure::{
    api::wire::{v3electionpb, v3lockpb},
    grpc::{
        Client, Code,
        stubs::{ElectionClient, KvClient, LeaseClient, LockClient},
    },
};
use tenure_e2e::{Address, Cluster, Plan, Scrape, eventually, pb, session::connect};
use tokio::task::JoinSet;
use tonic::Status;

const TTL: Duration = Duration::from_secs(9);
const SESSIONS: usize = 60;
/// A quarter of them on a lease. Together they are several times as many as may be open.
const PUTS_AT_ONCE: usize = 36_000;
const CONNECTIONS: usize = 9;
/// A refused request is repeated after this long.
const PAUSE: Duration = Duration::from_millis(500);
/// Two thirds of the TTL: a client that misses its second renewal steps down.
const WAIT_MAX: Duration = Duration::from_secs(6);

/// What became of the puts.
#[derive(Debug, Default)]
struct Tally {
    done: AtomicUsize,
    refused: AtomicUsize,
    otherwise: AtomicUsize,
    stop: AtomicBool,
}

/// Load on one member that goes on until it is dropped, on a thread of its own so that measurements do not wait behind
/// it.
struct Flood {
    tally: Arc<Tally>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// A quarter of the puts is on this lease.
    fn start(to: Address, lease: i64) -> Flood {
        let tally = Arc::new(Tally::default());
        let shared = Arc::clone(&tally);
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let mut streams = JoinSet::new();
                for connection in 0..CONNECTIONS {
                    let kv = KvClient::new(connect(to).await);
                    for stream in 0..PUTS_AT_ONCE / CONNECTIONS {
                        let put = pb::PutRequest {
                            key: format!("flood/{connection}/{stream}").into(),
                            // Small writes on leases go before the rest, but not before sessions.
                            lease: if stream % 4 == 0 { lease } else { 0 },
                            ..Default::default()
                        };
                        streams.spawn(put_on(kv.clone(), put, Arc::clone(&shared)));
                    }
                }
                streams.join_all().await;
            });
        };
        Flood { tally, thread: Some(std::thread::spawn(run)) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.tally.stop.store(true, Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn put_on(
    mut kv: KvClient<tonic::transport::Channel>,
    put: pb::PutRequest,
    tally: Arc<Tally>,
) {
    while !tally.stop.load(Relaxed) {
        match kv.put(put.clone()).await {
            Ok(_) => tally.done.fetch_add(1, Relaxed),
            Err(status)
                if status.code() == Code::ResourceExhausted
                    && status.message() == "etcdserver: too many requests" =>
            {
                tokio::time::sleep(PAUSE).await;
                tally.refused.fetch_add(1, Relaxed)
            }
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                tally.otherwise.fetch_add(1, Relaxed)
            }
        };
    }
}

/// Sessions that are kept alive, each as clients do it, while something else goes on.
pub(crate) struct Sessions(JoinSet<Vec<Duration>>);

impl Sessions {
    /// So many, spread over all members, for so long.
    pub(crate) async fn start(cluster: &Cluster, count: usize, time: Duration) -> Sessions {
        let mut leases = Vec::new();
        for member in (0..count).map(|n| n % cluster.members.len()) {
            let client = cluster.members[member].client();
            leases.push((grant(&client, TTL).await, client));
        }
        let until = Instant::now() + time;
        let mut sessions = JoinSet::new();
        for (lease, client) in leases {
            sessions.spawn(hold(client, lease, until));
        }
        Sessions(sessions)
    }

    /// Waits until their time is over. None was lost, and no renewal took too long.
    pub(crate) async fn all_lived(self) {
        let mut waits = self.0.join_all().await.concat();
        waits.sort_unstable();
        let part = |percent: usize| waits[(waits.len() - 1) * percent / 100];
        let worst = part(100);
        println!(
            "{} renewals: half within {:?}, 99 of 100 within {:?}, all within {worst:?}",
            waits.len(),
            part(50),
            part(99)
        );
        assert!(worst < WAIT_MAX, "a renewal took {worst:?}");
    }
}

/// Keeps one session alive, every third of its TTL; answers how long each renewal took.
async fn hold(client: Client, lease: i64, until: Instant) -> Vec<Duration> {
    let mut waits = Vec::new();
    let mut renewals = client.lease().renewals(lease).await.unwrap();
    assert!(renewals.answer().await.unwrap().ttl > 0);
    while Instant::now() < until {
        let sent = Instant::now();
        renewals.renew().await.unwrap();
        assert!(renewals.answer().await.unwrap().ttl > 0, "session {lease} was lost");
        waits.push(sent.elapsed());
        tokio::time::sleep((TTL / 3).saturating_sub(sent.elapsed())).await;
    }
    waits
}

pub(crate) async fn grant(client: &Client, ttl: Duration) -> i64 {
    let grant = pb::LeaseGrantRequest { ttl: ttl.as_secs() as i64, id: 0 };
    client.lease().grant(grant).await.unwrap().id
}

/// Is elected and resigns, locks and unlocks, and ends a session, again and again; answers the longest wait of each.
async fn lead(at: Address, leases: Vec<i64>) -> [Duration; 5] {
    let channel = connect(at).await;
    let (mut elections, mut locks) =
        (ElectionClient::new(channel.clone()), LockClient::new(channel.clone()));
    let mut leasing = LeaseClient::new(channel);
    let mut worst = [Duration::ZERO; 5];
    let mut took = |step: usize, since: Instant| worst[step] = worst[step].max(since.elapsed());
    for lease in leases {
        let sent = Instant::now();
        let name = format!("office of {lease}").into();
        let campaign = v3electionpb::CampaignRequest { name, lease, value: "me".into() };
        let leader = elections.campaign(campaign).await.unwrap().into_inner().leader;
        took(0, sent);
        let sent = Instant::now();
        elections.resign(v3electionpb::ResignRequest { leader }).await.unwrap();
        took(1, sent);
        let sent = Instant::now();
        let lock = v3lockpb::LockRequest { name: format!("lock of {lease}").into(), lease };
        let key = locks.lock(lock).await.unwrap().into_inner().key;
        took(2, sent);
        let sent = Instant::now();
        locks.unlock(v3lockpb::UnlockRequest { key, fencing_token: 0 }).await.unwrap();
        took(3, sent);
        let sent = Instant::now();
        leasing.lease_revoke(pb::LeaseRevokeRequest { id: lease }).await.unwrap();
        took(4, sent);
    }
    worst
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_do_not_wait_when_more_is_asked_than_a_member_takes() {
    let cluster = Cluster::start(3).await;
    let flooded = cluster.leader().await;
    // A lease is granted before: clients with a session go before those that want one.
    let mut to_lead = Vec::new();
    for _ in 0..8 {
        to_lead.push(grant(&cluster.client(), Duration::from_secs(600)).await);
    }
    let burden = grant(&cluster.client(), Duration::from_secs(600)).await;
    let before = cluster.status(0).await.unwrap().header.unwrap().revision;
    let sessions = Sessions::start(&cluster, SESSIONS, 3 * TTL).await;
    let flood = Flood::start(cluster.members[flooded].client, burden);
    let at = cluster.members[flooded].client.to_string();
    eventually("the flood is held back", async || {
        let held = Scrape::of(&at).await?.total("tenure_client_reads_held_total");
        if held > Some(100.0) { Ok(()) } else { Err(format!("{held:?}, {:?}", flood.tally)) }
    })
    .await;
    let led = lead(cluster.members[flooded].client, to_lead).await;
    println!("longest waits: campaign, resign, lock, unlock, revoke {led:?}");
    sessions.all_lived().await;
    println!("{:?}", flood.tally);
    assert!(led.iter().all(|wait| *wait < WAIT_MAX), "{led:?}");
    let after = cluster.status(0).await.unwrap().header.unwrap().revision;
    assert!(after > before + 1000, "puts were done meanwhile: {before} to {after}");
    drop(flood);
    writes_again(&cluster).await;
}

/// Ordinary writes are served when it is over.
pub(crate) async fn writes_again(cluster: &Cluster) {
    eventually("ordinary writes are served again", async || {
        let put = pb::PutRequest { key: "after".into(), ..Default::default() };
        cluster.client().kv().put(put).await.map(drop).map_err(|cause| cause.to_string())
    })
    .await;
}

/// Reads at a follower wait for a word of the raft leader's, which does not come while that stands still.
#[tokio::test(flavor = "multi_thread")]
async fn reads_past_what_may_be_open_are_refused_and_the_others_are_answered_when_they_can_be() {
    const READS: usize = 36_000;
    const OPEN: usize = 10_000;
    /// A connection may have so many in any case.
    const FEW: usize = 64;
    // No other member shall lead meanwhile. The first raft leader is elected without a wait.
    let flags = ["--election-timeout=45000", "--heartbeat-interval=100"];
    let cluster = Cluster::with(3, Plan::flags(&flags)).await;
    let leader = cluster.leader().await;
    let follower = cluster.members[cluster.other_than(leader)].client;
    let put = pb::PutRequest { key: "k".into(), ..Default::default() };
    cluster.client().kv().put(put).await.unwrap();
    cluster.members[leader].pause();
    let mut reads = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let kv = KvClient::new(connect(follower).await);
        for _ in 0..READS / CONNECTIONS {
            let (mut kv, key) = (kv.clone(), "k".into());
            reads.spawn(
                async move { kv.range(pb::RangeRequest { key, ..Default::default() }).await },
            );
        }
    }
    let is_refusal = |status: &Status| {
        let said = (status.code(), status.message());
        assert_eq!(said, (Code::ResourceExhausted, "etcdserver: too many requests"));
    };
    // Those that are refused are refused at once.
    let open_max = OPEN + CONNECTIONS * FEW;
    for _ in open_max..READS {
        is_refusal(&reads.join_next().await.unwrap().unwrap().expect_err("nobody can be answered"));
    }
    cluster.members[leader].resume();
    let (mut answered, mut refused) = (0, READS - open_max);
    while let Some(read) = reads.join_next().await {
        match read.unwrap() {
            Ok(found) => {
                assert_eq!(found.into_inner().count, 1);
                answered += 1;
            }
            Err(status) => {
                is_refusal(&status);
                refused += 1;
            }
        }
    }
    println!("{answered} reads were answered, {refused} refused");
    let all = (OPEN..=open_max).contains(&answered);
    assert!(all, "{answered} answered, {refused} refused");
}
