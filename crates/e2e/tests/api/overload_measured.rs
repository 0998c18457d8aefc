//! Ten times as much as a cluster carries: first it is measured what it does carry, then ten times that is offered.
//!
//! On a machine that the clients share with the members nobody could ask for ten times as many plain puts. So each request
//! is little to ask and much to do: a transaction that looks for the greatest of many values, in every member's
//! state machine, and writes one. It goes to a follower, which has to pass all of it on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tenure::grpc::stubs::KvClient;
use tenure_e2e::{Address, Cluster, Plan, eventually, pb, session::connect};
use tonic::transport::Channel;

use super::overload::{Sessions, writes_again};

/// Values that are looked through, and how often a transaction does so at first and at the most.
const SEARCHED: usize = 2000;
const SEARCHES_MIN: usize = 1;
const SEARCHES_MAX: usize = 100;
/// It shall do so often enough that the cluster carries about so many in a second, whatever machine this is.
const CARRIED: f64 = 150.0;
/// What each writes: large enough for the limit in bytes, and for small batches.
const VALUE_BYTES: usize = 16 << 10;
/// How many are under way while it is measured: more bring nothing.
const IN_FLIGHT: usize = 300;
const CONNECTIONS: usize = 4;
const TRIED: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(4);
const FACTOR: f64 = 10.0;
const OFFERED: Duration = Duration::from_secs(15);
const SESSIONS: usize = 30;

/// What became of the puts.
#[derive(Debug, Default)]
struct Tally {
    offered: AtomicUsize,
    done: AtomicUsize,
    refused: AtomicUsize,
    otherwise: AtomicUsize,
    /// How much is to be done for each.
    searches: usize,
    stop: AtomicBool,
}

impl Tally {
    async fn ask(&self, kv: &mut KvClient<Channel>) {
        let number = self.offered.fetch_add(1, Relaxed);
        match kv.txn(search_and_write(self.searches, number % 1000)).await {
            Ok(_) => self.done.fetch_add(1, Relaxed),
            Err(status) if status.message() == "etcdserver: too many requests" => {
                self.refused.fetch_add(1, Relaxed)
            }
            Err(_) => self.otherwise.fetch_add(1, Relaxed),
        };
    }
}

fn search_and_write(searches: usize, number: usize) -> pb::TxnRequest {
    use pb::{
        range_request::{SortOrder, SortTarget},
        request_op::Request::{RequestPut, RequestRange},
    };
    let greatest = pb::RangeRequest {
        key: "searched/".into(),
        range_end: "searched0".into(),
        sort_order: SortOrder::Descend as i32,
        sort_target: SortTarget::Value as i32,
        limit: 1,
        ..Default::default()
    };
    let put = pb::PutRequest {
        key: format!("written/{number}").into(),
        value: vec![b'v'; VALUE_BYTES].into(),
        ..Default::default()
    };
    let searches = std::iter::repeat_n(RequestRange(greatest), searches);
    let ops = searches.chain([RequestPut(put)]);
    let success = ops.map(|request| pb::RequestOp { request: Some(request) }).collect();
    pb::TxnRequest { success, ..Default::default() }
}

/// Writes what is searched.
async fn prepare(cluster: &Cluster) {
    for chunk in (0..SEARCHED).collect::<Vec<_>>().chunks(100) {
        let put = |n: &usize| pb::RequestOp {
            request: Some(pb::request_op::Request::RequestPut(pb::PutRequest {
                key: format!("searched/{n}").into(),
                value: format!("{:08}", n * 7919 % SEARCHED).into(),
                ..Default::default()
            })),
        };
        let success = chunk.iter().map(put).collect();
        let txn = pb::TxnRequest { success, ..Default::default() };
        cluster.client().kv().txn(txn).await.unwrap();
    }
}

/// Load on one member on a thread of its own, so that those who measure do not wait behind it.
struct Flood {
    tally: Arc<Tally>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn run(
        to: Address,
        searches: usize,
        flood: impl AsyncFnOnce(Vec<KvClient<Channel>>, Arc<Tally>) + Send + 'static,
    ) -> Flood {
        let tally = Arc::new(Tally { searches, ..Tally::default() });
        let shared = Arc::clone(&tally);
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let mut clients = Vec::new();
                for _ in 0..CONNECTIONS {
                    clients.push(KvClient::new(connect(to).await));
                }
                flood(clients, shared).await;
            });
        };
        Flood { tally, thread: Some(std::thread::spawn(run)) }
    }

    /// As much as the cluster does: whoever is answered asks again.
    fn closed(to: Address, searches: usize) -> Flood {
        Flood::run(to, searches, async |clients, tally| {
            let mut callers = tokio::task::JoinSet::new();
            for n in 0..IN_FLIGHT {
                let (mut kv, tally) = (clients[n % CONNECTIONS].clone(), Arc::clone(&tally));
                callers.spawn(async move {
                    while !tally.stop.load(Relaxed) {
                        tally.ask(&mut kv).await;
                    }
                });
            }
            callers.join_all().await;
        })
    }

    /// So many in a second, whatever becomes of those before.
    fn open(to: Address, searches: usize, per_second: f64) -> Flood {
        Flood::run(to, searches, async move |clients, tally| {
            let began = Instant::now();
            let mut begun = 0;
            while !tally.stop.load(Relaxed) {
                let due = (began.elapsed().as_secs_f64() * per_second) as usize;
                for n in begun..due {
                    let (mut kv, tally) = (clients[n % CONNECTIONS].clone(), Arc::clone(&tally));
                    tokio::spawn(async move { tally.ask(&mut kv).await });
                }
                begun = due;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    }

    /// Waits until so many were done.
    async fn progress(&self, count: usize) {
        eventually("something is done", async || {
            let done = self.tally.done.load(Relaxed);
            if done > count { Ok(()) } else { Err(format!("{:?}", self.tally)) }
        })
        .await;
    }

    /// How much is offered and how much is done in a second, while it is looked at.
    async fn per_second(&self, time: Duration) -> (f64, f64) {
        let seen = || (self.tally.offered.load(Relaxed), self.tally.done.load(Relaxed));
        let ((offered, done), began) = (seen(), Instant::now());
        tokio::time::sleep(time).await;
        let ((offered_then, done_then), took) = (seen(), began.elapsed().as_secs_f64());
        ((offered_then - offered) as f64 / took, (done_then - done) as f64 / took)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.tally.stop.store(true, Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What the cluster does in a second of such requests, and would do of more.
async fn carried(at: Address, searches: usize, measured: Duration) -> f64 {
    let flood = Flood::closed(at, searches);
    flood.progress(IN_FLIGHT / 2).await;
    flood.per_second(measured).await.1
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_is_lost_when_ten_times_what_the_cluster_carries_is_offered() {
    // One batch takes a member a good part of a second here, in which it says nothing to the others.
    let plan = Plan::flags(&["--election-timeout=3000"]);
    let cluster = Cluster::with(3, plan).await;
    prepare(&cluster).await;
    let flooded = cluster.members[cluster.other_than(cluster.leader().await)].client;
    let light = carried(flooded, SEARCHES_MIN, TRIED).await;
    let searches = ((light / CARRIED) as usize).clamp(SEARCHES_MIN, SEARCHES_MAX);
    let carried = carried(flooded, searches, MEASURED).await;
    let sessions = Sessions::start(&cluster, SESSIONS, OFFERED + Duration::from_secs(3)).await;
    let flood = Flood::open(flooded, searches, FACTOR * carried);
    let (offered, done) = flood.per_second(OFFERED).await;
    println!(
        "it carries {light:.0}/s that are light and {carried:.0}/s of {searches} searches each; \
         {offered:.0}/s offered, {done:.0}/s done meanwhile; {:?}",
        flood.tally
    );
    let (refused, in_all) = (flood.tally.refused.load(Relaxed), flood.tally.done.load(Relaxed));
    drop(flood);
    sessions.all_lived().await;
    // Whether the machine let the clients ask so much at all.
    assert!(offered >= 0.95 * FACTOR * carried, "{offered:.0} for {carried:.0}");
    assert!(refused > in_all, "{refused} were refused and {in_all} done");
    assert!(done > carried / 20.0, "{done:.0} of {carried:.0}");
    writes_again(&cluster).await;
}
