//! Ten times as much as a cluster carries: first it is measured what it does carry, then ten times that is offered.
//!
//! On a machine that the clients share with the members they could not ask for ten times as many plain puts. So each
//! request is little to ask and much to do: a transaction that looks for the greatest of many values, in every member's
//! state machine, and writes one. It goes to a follower, which has to pass all of it on.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use tenure_e2e::{Address, Cluster, Flood, Make, pb};

use super::overload::{Sessions, writes_again};

/// Values that are looked through, and how often a transaction does so at first and at the most.
const SEARCHED: usize = 2000;
const SEARCHES_MIN: usize = 1;
const SEARCHES_MAX: usize = 100;
/// It shall do so often enough that the cluster carries about so many in a second, whatever machine this is.
const CARRIED: f64 = 150.0;
/// What each writes: large enough for the limit in bytes, and for small batches.
pub(crate) const VALUE_BYTES: usize = 16 << 10;
/// How many keys are written, over and over.
const KEYS: usize = 1000;
/// How many are under way while it is measured: more bring nothing.
const IN_FLIGHT: usize = 300;
const TRIED: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(4);
const FACTOR: f64 = 10.0;
const OFFERED: Duration = Duration::from_secs(15);
const SESSIONS: usize = 30;

/// A write that takes so many searches; with none it is a plain one.
pub(crate) fn search_and_write(searches: usize) -> impl Make {
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
    move |number| {
        let put = pb::PutRequest {
            key: format!("written/{}", number % KEYS).into(),
            value: vec![b'v'; VALUE_BYTES].into(),
            ..Default::default()
        };
        let searches = std::iter::repeat_n(RequestRange(greatest.clone()), searches);
        let ops = searches.chain([RequestPut(put)]);
        let success = ops.map(|request| pb::RequestOp { request: Some(request) }).collect();
        pb::TxnRequest { success, ..Default::default() }
    }
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

/// What the cluster does in a second of such requests, and would do of more.
pub(crate) async fn carried(at: Address, make: impl Make, measured: Duration) -> f64 {
    let flood = Flood::closed(at, IN_FLIGHT, make);
    flood.progress(IN_FLIGHT / 2).await;
    flood.per_second(measured).await.1
}

#[tokio::test(flavor = "multi_thread")]
async fn overload_of_ten_times_the_usual_loses_no_session() {
    let cluster = Cluster::start(3).await;
    prepare(&cluster).await;
    let flooded = cluster.members[cluster.other_than(cluster.leader().await)].client;
    let light = carried(flooded, search_and_write(SEARCHES_MIN), TRIED).await;
    let searches = ((light / CARRIED) as usize).clamp(SEARCHES_MIN, SEARCHES_MAX);
    let carried = carried(flooded, search_and_write(searches), MEASURED).await;
    let sessions = Sessions::start(&cluster, SESSIONS, OFFERED + Duration::from_secs(3)).await;
    let flood = Flood::open(flooded, FACTOR * carried, search_and_write(searches));
    let (offered, done) = flood.per_second(OFFERED).await;
    println!(
        "it carries {light:.0}/s that are light and {carried:.0}/s of {searches} searches each; \
         {offered:.0}/s offered, {done:.0}/s done meanwhile; {:?}",
        flood.tally
    );
    let [refused, unknown, in_all] =
        [&flood.tally.refused, &flood.tally.otherwise, &flood.tally.done]
            .map(|count| count.load(Relaxed));
    drop(flood);
    sessions.all_lived().await;
    // Whether the machine let the clients ask so much at all.
    assert!(offered >= 0.95 * FACTOR * carried, "{offered:.0} for {carried:.0}");
    assert!(refused > in_all, "{refused} were refused and {in_all} done");
    assert!(unknown < in_all, "of {unknown} nobody knows, {in_all} were done");
    assert!(done > carried / 4.0, "{done:.0} of {carried:.0}");
    writes_again(&cluster).await;
}
