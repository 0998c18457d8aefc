//! Watch streams whose clients go away, or ask and never read: they take nothing from anybody.

use tenure::grpc::stubs::WatchClient;
use tenure_e2e::{Cluster, Scrape, eventually, pb};
use tokio_stream::StreamExt;

use pb::watch_request::RequestUnion;

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
async fn it_keeps_no_watch_of_a_stream_that_is_gone() {
    const STREAMS: usize = 400;
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let creates = || (0..32).map(|n| asking(of(&format!("k{n}"))));
    for n in 0..STREAMS {
        let mut stub = WatchClient::new(client.channel());
        let requests = tokio_stream::iter(creates()).chain(tokio_stream::pending());
        let call = tokio::spawn(async move { stub.watch(requests).await });
        for _ in 0..n % 40 {
            tokio::task::yield_now().await;
        }
        // Before the answer, or after it.
        call.abort();
        drop(call.await);
    }
    let address = cluster.members[0].client.to_string();
    eventually("all watches have ended", async || {
        let watchers = Scrape::of(&address).await?.total("etcd_debugging_mvcc_watcher_total");
        if watchers == Some(0.0) { Ok(()) } else { Err(format!("{watchers:?}")) }
    })
    .await;
    // The streams themselves were served, or this would prove nothing.
    let scrape = Scrape::of(&address).await.unwrap();
    let started = scrape.total("grpc_server_msg_received_total");
    assert!(started > Some(STREAMS as f64), "{started:?}");
}
