//! All members restarted one after the other, as for an upgrade.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure::grpc::Client;
use tenure_e2e::{Cluster, Load, Plan, Register, pb};
use tokio::task::JoinHandle;

const WRITERS: usize = 8;
const READERS: usize = 4;
/// Writes between two restarts.
const BETWEEN: usize = 100;
/// Shorter than the restarts take together.
const LEASE_TTL: i64 = 5;
const RENEWAL_INTERVAL: Duration = Duration::from_millis(500);
/// What is written last.
const LAST: &str = "load/last";

/// The client retries as etcd's own: reads always, writes only when nothing was sent.
#[tokio::test(flavor = "multi_thread")]
async fn rolling_restart_fails_no_request() {
    for count in [3, 5] {
        let mut cluster = Cluster::with(count, Plan::flags(&["--snapshot-count", "300"])).await;
        let clients: Vec<Client> = (0..WRITERS).map(|_| cluster.client()).collect();
        let watching = watch(cluster.client()).await;
        let load = Load::start("load", clients);
        let register = Register::start(&cluster, "register");
        let others = Others::start(&cluster).await;
        for member in 0..count {
            load.progress(BETWEEN).await;
            assert!(cluster.members[member].stop().await.success());
            load.progress(BETWEEN / 2).await;
            cluster.members[member].start();
            cluster.members[member].ready().await;
        }
        load.progress(BETWEEN).await;
        others.stop(&cluster.client()).await;
        register.stop().await;
        let record = load.stop().await;
        record.assert_no_failure();
        record.check(&cluster.client(), "load").await;
        cluster.same_everywhere().await;
        let last = pb::PutRequest { key: LAST.into(), ..Default::default() };
        cluster.client().kv().put(last).await.unwrap();
        assert_eq!(watching.await.unwrap(), record.acknowledged, "what was told and what was done");
    }
}

/// Hears of every write in its order until the last; answers the keys and at which revision each was written.
async fn watch(client: Client) -> JoinHandle<BTreeMap<String, i64>> {
    let all = pb::WatchCreateRequest {
        key: "load/".into(),
        range_end: "load0".into(),
        ..Default::default()
    };
    let mut watch = client.watch().resumed(all).await.unwrap();
    assert!(watch.next().await.unwrap().created);
    tokio::spawn(async move {
        let (mut heard, mut newest) = (BTreeMap::new(), 0);
        loop {
            let answer = watch.next().await.unwrap();
            assert!(!answer.canceled, "{answer:?}");
            for kv in answer.events.into_iter().filter_map(|event| event.kv) {
                assert!(kv.mod_revision > newest, "{} after {newest}", kv.mod_revision);
                newest = kv.mod_revision;
                if kv.key == LAST {
                    return heard;
                }
                heard.insert(String::from_utf8_lossy(&kv.key).into_owned(), kv.mod_revision);
            }
        }
    })
}

/// Clients that read, and one that keeps a lease.
struct Others {
    stop: Arc<AtomicBool>,
    readers: Vec<JoinHandle<usize>>,
    keeper: JoinHandle<usize>,
    lease: i64,
}

impl Others {
    async fn start(cluster: &Cluster) -> Others {
        let stop = Arc::new(AtomicBool::new(false));
        let readers = (0..READERS).map(|_| tokio::spawn(read(cluster.client(), stop.clone())));
        let readers = readers.collect();
        let client = cluster.client();
        let grant = pb::LeaseGrantRequest { ttl: LEASE_TTL, id: 0 };
        let lease = client.lease().grant(grant).await.unwrap().id;
        let put = pb::PutRequest { key: "leased".into(), lease, ..Default::default() };
        client.kv().put(put).await.unwrap();
        let keeper = tokio::spawn(keep(client, lease, stop.clone()));
        Others { stop, readers, keeper, lease }
    }

    /// No request was refused, and the lease and its keys live.
    async fn stop(self, client: &Client) {
        self.stop.store(true, Ordering::Relaxed);
        for reader in self.readers {
            assert!(reader.await.expect("no read may fail") > 0);
        }
        assert!(self.keeper.await.expect("no renewal may fail") > 0);
        let ask = pb::LeaseTimeToLiveRequest { id: self.lease, keys: true };
        let lease = client.lease().time_to_live(ask).await.unwrap();
        assert!(lease.ttl > 0 && lease.keys == ["leased"], "{lease:?}");
        client.lease().revoke(self.lease).await.unwrap();
    }
}

async fn read(client: Client, stop: Arc<AtomicBool>) -> usize {
    let mut reads = 0;
    while !stop.load(Ordering::Relaxed) {
        let range = pb::RangeRequest { key: "register".into(), ..Default::default() };
        client.kv().range(range).await.unwrap_or_else(|error| panic!("after {reads}: {error}"));
        reads += 1;
    }
    reads
}

/// Renews as etcd's client does: on a stream, and when that ends on the next one.
async fn keep(client: Client, lease: i64, stop: Arc<AtomicBool>) -> usize {
    let mut renewed = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut renewals = client.lease().renewals(lease).await.unwrap();
        while let Ok(answer) = renewals.answer().await {
            assert!(answer.ttl > 0, "the lease is gone after {renewed} renewals");
            renewed += 1;
            tokio::time::sleep(RENEWAL_INTERVAL).await;
            if stop.load(Ordering::Relaxed) || renewals.renew().await.is_err() {
                break;
            }
        }
    }
    renewed
}
