//! Death at every step of writing, and disks that forget what was not flushed.
//!
//! Both are made by the process itself (`crates/disk/src/faulty.rs`, in builds with debug assertions only): it kills itself at
//! a named point, or keeps what was not flushed in its own memory, so that kill -9 is a loss of power.

use std::{thread, time::Duration};

use tenure_e2e::{Cluster, Load, Plan, Record, eventually_within, pb};
use tenure_server::disk::faulty::POINTS;
use tokio::runtime::Runtime;

/// Members that go through their points at the same time.
const AT_ONCE: usize = 3;
/// Points that one cluster goes through.
const POINTS_PER_CLUSTER: usize = 10;
/// How long a member may take to come by its point, on a busy machine.
const REACHED_WITHIN: Duration = Duration::from_secs(40);
/// Small, so that snapshots are written and old ones removed.
const FLAGS: [&str; 2] = ["--snapshot-count", "40"];

fn kill_at(point: &str) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    vec![("TENURE_FAULTS".into(), format!("kill={point}").into())]
}

/// Writes until it fails: small values, and some that fill segments.
async fn write_until_it_dies(cluster: &mut Cluster, at: usize, record: &mut Record, point: &str) {
    // Half of them are its own to answer.
    let clients = [cluster.members[at].client(), cluster.client()];
    let fills = ["segment", "wal.rename"].iter().any(|needs| point.starts_with(needs));
    let end = std::time::Instant::now() + REACHED_WITHIN;
    for number in 0usize.. {
        if cluster.members[at].ended().is_some() {
            return;
        }
        assert!(std::time::Instant::now() < end, "{point} was never reached");
        let key = format!("{point}/{number:05}");
        let bytes = if fills && number % 4 == 3 { 1 << 20 } else { 8 };
        // The big ones are the same few: the store must not grow.
        let key = if bytes > 8 { format!("filler/{}", number % 3) } else { key };
        let put = pb::PutRequest {
            key: key.clone().into(),
            value: vec![b'v'; bytes].into(),
            ..Default::default()
        };
        let kv = clients[number % 2].kv();
        let put = kv.put(put);
        let put = tokio::time::timeout(Duration::from_secs(2), put).await;
        if let Ok(Ok(answer)) = put
            && bytes == 8
        {
            record.acknowledged.insert(key, answer.header.map_or(0, |header| header.revision));
        }
    }
}

async fn all_there(cluster: &Cluster, record: &Record, point: &str) {
    let client = cluster.client();
    let range = pb::RangeRequest {
        key: format!("{point}/").into(),
        range_end: format!("{point}0").into(),
        ..Default::default()
    };
    let found = eventually_within(REACHED_WITHIN, "a read of everything", async || {
        client.kv().range(range.clone()).await.map_err(|error| error.to_string())
    })
    .await;
    let found: std::collections::BTreeMap<String, i64> = found
        .kvs
        .iter()
        .map(|kv| (String::from_utf8_lossy(&kv.key).into_owned(), kv.mod_revision))
        .collect();
    for (key, revision) in &record.acknowledged {
        assert_eq!(found.get(key), Some(revision), "killed at {point}: {key}");
    }
}

/// A new member alone that dies at a point, and is started again.
async fn alone(point: &'static str) -> usize {
    let mut cluster = Cluster::prepare(1, Plan::flags(&FLAGS));
    cluster.members[0].spawn.env = kill_at(point);
    cluster.members[0].start();
    let mut record = Record::default();
    write_until_it_dies(&mut cluster, 0, &mut record, point).await;
    cluster.members[0].wait_for_end().await;
    cluster.members[0].spawn.env.clear();
    cluster.members[0].start();
    cluster.members[0].ready().await;
    all_there(&cluster, &record, point).await;
    record.acknowledged.len()
}

/// Points that only members of a cluster pass.
fn needs_peers(point: &str) -> bool {
    point.starts_with("core.messages")
}

#[test]
fn kill_points_lose_nothing_of_a_member_alone() {
    let points: Vec<&str> = POINTS.iter().copied().filter(|point| !needs_peers(point)).collect();
    let acknowledged: usize = thread::scope(|scope| {
        let walkers = (0..AT_ONCE).map(|first| {
            let own = points.iter().copied().skip(first).step_by(AT_ONCE);
            scope.spawn(move || {
                let runtime = Runtime::new().unwrap();
                own.map(|point| runtime.block_on(alone(point))).sum::<usize>()
            })
        });
        let walkers: Vec<_> = walkers.collect();
        walkers.into_iter().map(|walker| walker.join().unwrap()).sum()
    });
    assert!(acknowledged > 100, "{acknowledged} writes prove little");
}

/// Every point again in a cluster of three that goes on writing: the members die in turn. A new cluster now and then, because
/// large values make restarts slow.
#[tokio::test(flavor = "multi_thread")]
async fn kill_points_lose_nothing_of_a_cluster() {
    for points in POINTS.chunks(POINTS_PER_CLUSTER) {
        let mut cluster = Cluster::with(3, Plan::flags(&["--snapshot-count", "10"])).await;
        let mut records = Vec::new();
        for (number, point) in points.iter().enumerate() {
            let at = number % 3;
            cluster.members[at].stop().await;
            cluster.members[at].spawn.env = kill_at(point);
            cluster.members[at].start();
            let mut record = Record::default();
            write_until_it_dies(&mut cluster, at, &mut record, point).await;
            cluster.members[at].wait_for_end().await;
            cluster.members[at].spawn.env.clear();
            cluster.members[at].start();
            cluster.members[at].ready().await;
            records.push((point, record));
        }
        for (point, record) in &records {
            all_there(&cluster, record, point).await;
        }
        cluster.same_everywhere().await;
    }
}

/// Power is lost again and again while clients write: of one member, or of all at once.
async fn power_loss(members: usize, forget: &str, together: bool) {
    let mut cluster = Cluster::prepare(members, Plan::flags(&FLAGS));
    for member in &mut cluster.members {
        member.spawn.env = vec![("TENURE_FAULTS".into(), forget.into())];
        member.start();
    }
    for member in &mut cluster.members {
        member.ready().await;
    }
    let load = Load::start("load", (0..4).map(|_| cluster.client()).collect());
    for round in 0..6 {
        load.progress(60).await;
        let dark: Vec<usize> =
            if together { (0..members).collect() } else { vec![round % members] };
        for at in &dark {
            cluster.members[*at].kill();
        }
        for at in &dark {
            cluster.members[*at].start();
        }
        for at in dark {
            cluster.members[at].ready().await;
        }
    }
    load.progress(20).await;
    let record = load.stop().await;
    record.check(&cluster.client(), "load").await;
    if members > 1 {
        cluster.same_everywhere().await;
    }
}

/// Without this the tests above could not fail.
#[tokio::test(flavor = "multi_thread")]
async fn power_loss_is_noticed_if_flushes_lie() {
    let mut cluster = Cluster::prepare(1, Plan::flags(&FLAGS));
    cluster.members[0].spawn.env = vec![("TENURE_FAULTS".into(), "forget,lie".into())];
    cluster.members[0].start();
    cluster.members[0].ready().await;
    let load = Load::start("load", vec![cluster.client()]);
    load.progress(20).await;
    cluster.members[0].kill();
    let record = load.stop().await;
    cluster.members[0].start();
    cluster.members[0].ready().await;
    let wrong = record.wrong(&cluster.client(), "load").await;
    assert!(wrong.len() >= 20, "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn power_loss_of_a_member_alone_loses_no_acknowledged_write() {
    power_loss(1, "forget", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn power_loss_of_one_of_three_loses_no_acknowledged_write() {
    power_loss(3, "forget=30", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn power_loss_of_all_members_loses_no_acknowledged_write() {
    power_loss(3, "forget=30", true).await;
}
