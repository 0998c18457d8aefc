//! Watch streams whose clients go away, or ask and never read: they take nothing from other clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tenure::grpc::stubs::WatchClient;
use tenure_e2e::{Cluster, Scrape, eventually, pb};
use tokio_stream::StreamExt;

use pb::watch_request::RequestUnion;

/// How long an answer that must come may take.
const PATIENCE: Duration = Duration::from_secs(10);

fn asking(what: RequestUnion) -> pb::WatchRequest {
    pb::WatchRequest { request_union: Some(what) }
}

fn of(key: &str) -> RequestUnion {
    let create = pb::WatchCreateRequest { key: key.to_owned().into(), ..Default::default() };
    RequestUnion::CreateRequest(create)
}

/// A request is read by one task and the end of its stream noticed by another: the request may well be
/// handed in last.
#[tokio::test(flavor = "multi_thread")]
async fn watch_keeps_no_watch_of_a_stream_that_is_gone() {
    const STREAMS: usize = 200;
    const WATCHES: usize = 500;
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    for _ in 0..STREAMS {
        let creates = (0..WATCHES).map(|n| asking(of(&format!("k{n}"))));
        let mut stub = WatchClient::new(client.channel());
        // Hung up as soon as it stands, while its requests are being read.
        drop(stub.watch(tokio_stream::iter(creates)).await.unwrap());
    }
    let address = cluster.members[0].client.to_string();
    eventually("all watches have ended", async || {
        let scrape = Scrape::of(&address).await?;
        let watchers = scrape.total("etcd_debugging_mvcc_watcher_total");
        let streams = scrape.total("etcd_debugging_mvcc_watch_stream_total");
        let left = format!("{watchers:?} on {streams:?} streams");
        if watchers == Some(0.0) && streams == Some(0.0) { Ok(()) } else { Err(left) }
    })
    .await;
    // Requests were read, or this would prove nothing.
    let received = Scrape::of(&address).await.unwrap().total("grpc_server_msg_received_total");
    assert!(received > Some(STREAMS as f64), "{received:?}");
}

/// A client that asks as long as it is let, and reads nothing.
async fn asks_on_and_on(cluster: &Cluster, what: RequestUnion) -> Watch {
    const MOST: usize = 2_000_000;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let requests = tokio_stream::iter(0..MOST).map(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        asking(what.clone())
    });
    let mut stub = WatchClient::new(cluster.members[0].client().channel());
    let answers = stub.watch(requests.chain(tokio_stream::pending())).await.unwrap().into_inner();
    // Until it is not taken any more; what lies in buffers on the way is not the member's.
    let (mut before, mut looks) = (0, 0);
    eventually("it is not read any more", async || {
        let now = asked.load(Ordering::Relaxed);
        looks = if std::mem::replace(&mut before, now) == now { looks + 1 } else { 0 };
        if now > 0 && looks > 50 { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
    assert!(before < MOST, "all {MOST} requests were taken, and no answer was read");
    answers
}

type Watch = tonic::Streaming<pb::WatchResponse>;

#[tokio::test(flavor = "multi_thread")]
async fn watch_stops_reading_a_client_that_never_reads() {
    let cluster = Cluster::start(1).await;
    let address = cluster.members[0].client.to_string();
    let taken =
        async || Scrape::of(&address).await.unwrap().total("grpc_server_msg_received_total");
    let empty =
        pb::WatchCreateRequest { key: "b".into(), range_end: "a".into(), ..Default::default() };
    for what in [
        RequestUnion::ProgressRequest(pb::WatchProgressRequest {}),
        RequestUnion::CreateRequest(empty),
    ] {
        let before = taken().await;
        let mut answers = asks_on_and_on(&cluster, what).await;
        // Some answers are on their way, and lie where the client would read them.
        let most = before.map(|before| before + 400_000.0);
        assert!(taken().await < most, "{before:?} {:?}", taken().await);
        // It has not forgotten: every request that was taken has its answer, and then come more.
        for _ in 0..5_000 {
            let answer =
                tokio::time::timeout(PATIENCE, answers.message()).await.expect("an answer");
            assert_eq!(answer.unwrap().unwrap().watch_id, -1);
        }
    }
}
