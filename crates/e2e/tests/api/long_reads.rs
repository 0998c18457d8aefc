//! Reads that take long: how many of them a member does at once.

use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tenure::grpc::{
    Code,
    stubs::{KvClient, MaintenanceClient},
};
use tenure_e2e::{Cluster, Scrape, pb, session::connect};
use tokio::task::JoinSet;

const ASKED_AT_ONCE: usize = 300;
/// As in `crates/server/src/grpc/aside.rs`.
const AT_ONCE: usize = 2;
const WAITING: usize = 64;

/// How nice each thread of this name is that a process has right now.
fn threads(pid: u32, name: &str) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return vec![] };
    let stats =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    let niceness = |stat: String| {
        let (start, rest) = stat.rsplit_once(") ")?;
        let named = start.split_once('(')?.1 == name;
        // The 19th field of all, the 17th behind the name.
        named.then(|| rest.split(' ').nth(16)?.parse().ok())?
    };
    stats.filter_map(niceness).collect()
}

/// Looks at a member's threads of a name all the time; answers the most there were, and how nice they were.
fn look(pid: u32, stop: Arc<AtomicBool>) -> (usize, BTreeSet<i32>) {
    let (mut most, mut nice) = (0, BTreeSet::new());
    while !stop.load(Relaxed) {
        let seen = threads(pid, "hash");
        most = most.max(seen.len());
        nice.extend(seen);
        std::thread::sleep(Duration::from_millis(1));
    }
    (most, nice)
}

/// A client that asks for many checksums at once takes two threads from the rest, and nice ones.
#[tokio::test(flavor = "multi_thread")]
async fn checksums_are_reckoned_a_few_at_once_some_wait_and_more_are_refused() {
    let cluster = Cluster::start(1).await;
    for n in 0..64u8 {
        let value = vec![n; 1 << 20].into();
        let put = pb::PutRequest { key: vec![b'k', n].into(), value, ..Default::default() };
        cluster.client().kv().put(put).await.unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let looking = tokio::task::spawn_blocking({
        let (pid, stop) = (cluster.members[0].pid(), Arc::clone(&stop));
        move || look(pid, stop)
    });
    let client = MaintenanceClient::new(connect(cluster.members[0].client).await);
    let mut asked = JoinSet::new();
    for _ in 0..ASKED_AT_ONCE {
        let mut client = client.clone();
        asked.spawn(async move { client.hash_kv(pb::HashKvRequest { revision: 0 }).await });
    }
    let (mut hashes, mut answered, mut refused) = (BTreeSet::new(), 0, 0);
    for answer in asked.join_all().await {
        match answer {
            Ok(hash) => {
                answered += 1;
                hashes.insert(hash.into_inner().hash);
            }
            Err(status) => {
                let said = (status.code(), status.message());
                assert_eq!(said, (Code::ResourceExhausted, "etcdserver: too many requests"));
                refused += 1;
            }
        }
    }
    stop.store(true, Relaxed);
    let (most, nice) = looking.await.unwrap();
    println!("{answered} answered, {refused} refused; {most} threads at once, nice {nice:?}");
    assert!(refused > 0 && answered >= AT_ONCE + WAITING);
    assert_eq!(hashes.len(), 1);
    // Threads that have done their work may not have ended when the next begin.
    assert!((1..10 * AT_ONCE).contains(&most), "{most}");
    assert!(nice.iter().any(|nice| *nice > 0), "{nice:?}");
    let again = cluster.client().maintenance().hash_kv(pb::HashKvRequest { revision: 0 }).await;
    assert!(hashes.contains(&again.unwrap().hash));
}

const KEYS: usize = 10_200;

/// A member with a store that is large enough to be read aside.
async fn with_many_keys() -> Cluster {
    const PER_TXN: usize = 120;
    let cluster = Cluster::start(1).await;
    for from in (0..KEYS).step_by(PER_TXN) {
        let put = |n: usize| pb::RequestOp {
            request: Some(pb::request_op::Request::RequestPut(pb::PutRequest {
                key: format!("key/{n:06}").into(),
                value: "v".into(),
                ..Default::default()
            })),
        };
        let success = (from..from + PER_TXN).map(put).collect();
        let txn = pb::TxnRequest { success, ..Default::default() };
        cluster.client().kv().txn(txn).await.unwrap();
    }
    cluster
}

fn everything() -> pb::RangeRequest {
    pb::RangeRequest { key: "key/".into(), range_end: "key0".into(), ..Default::default() }
}

/// More of them than run at once, each with all keys.
#[tokio::test(flavor = "multi_thread")]
async fn ranges_that_are_large_wait_for_each_other_and_all_are_answered() {
    const RANGES: usize = 80;
    let cluster = with_many_keys().await;
    let client = KvClient::new(connect(cluster.members[0].client).await)
        .max_decoding_message_size(usize::MAX);
    let mut asked = JoinSet::new();
    for n in 0..RANGES {
        let mut client = client.clone();
        let range = pb::RangeRequest { serializable: n % 2 == 0, ..everything() };
        asked.spawn(async move { client.range(range).await });
    }
    for answer in asked.join_all().await {
        let found = answer.unwrap().into_inner();
        assert_eq!((found.count as usize, found.kvs.len()), (KEYS, KEYS));
    }
}

/// Each takes a good part of a second. In the core loop they would keep this member from hearing any other.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_that_only_read_much_do_not_hold_the_core_loop() {
    const TXNS: usize = 8;
    const RANGES: usize = 100;
    let cluster = with_many_keys().await;
    let client = KvClient::new(connect(cluster.members[0].client).await);
    let mut asked = JoinSet::new();
    for n in 0..TXNS {
        let mut client = client.clone();
        let greatest = pb::RangeRequest {
            sort_order: pb::range_request::SortOrder::Descend as i32,
            sort_target: pb::range_request::SortTarget::Mod as i32,
            limit: 1,
            serializable: n % 2 == 0,
            ..everything()
        };
        let op = pb::RequestOp { request: Some(pb::request_op::Request::RequestRange(greatest)) };
        let txn = pb::TxnRequest { success: vec![op; RANGES], ..Default::default() };
        asked.spawn(async move { client.txn(txn).await });
    }
    for answer in asked.join_all().await {
        let answer = answer.unwrap().into_inner();
        assert!(answer.succeeded && answer.header.is_some());
        let counts = answer.responses.into_iter().map(|step| match step.response {
            Some(pb::response_op::Response::ResponseRange(found)) => found.count as usize,
            other => panic!("{other:?}"),
        });
        assert_eq!(counts.collect::<Vec<_>>(), [KEYS; RANGES]);
    }
    let metrics = Scrape::of(&cluster.members[0].client.to_string()).await.unwrap();
    let rounds = metrics.series["tenure_core_round_seconds_count"];
    let short = metrics.series["tenure_core_round_seconds_bucket{le=\"0.32768\"}"];
    assert_eq!(rounds, short, "all rounds but {} were short", rounds - short);
}
