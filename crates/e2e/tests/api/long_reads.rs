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

use tenure::grpc::{Code, stubs::MaintenanceClient};
use tenure_e2e::{Cluster, pb, session::connect};
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

/// Whoever asks for many checksums at once takes two threads from the rest, and nice ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_few_checksums_are_reckoned_at_once_some_wait_and_more_are_refused() {
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
