//! Streams of clients that want a raft leader (`hasleader`), while one dies after the other.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tenure::grpc::Client;
use tenure_e2e::{Cluster, Watcher, eventually, pb};

const KILLS: usize = 20;

fn create() -> pb::WatchCreateRequest {
    pb::WatchCreateRequest { key: "k".into(), ..Default::default() }
}

/// Opens streams one after the other, as Go's clients do, and keeps them, until told to stop.
async fn open(client: Client, stop: Arc<AtomicBool>, opened: Arc<AtomicUsize>) -> Vec<Watcher> {
    let mut streams = vec![];
    while !stop.load(Ordering::Relaxed) {
        let mut stream = Watcher::of(&client, true, create()).await.unwrap();
        let answer = stream.next().await;
        assert!(answer.created && !answer.canceled, "{answer:?}");
        // Enough of them to be open at every moment; more would only cost.
        streams.truncate(500);
        streams.push(stream);
        opened.fetch_add(1, Ordering::Relaxed);
    }
    streams
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_that_want_a_leader_outlive_twenty_of_them() {
    let mut cluster = Cluster::start(3).await;
    let (mut opened_vacant, mut kept) = (0, 0);
    for round in 0..KILLS {
        let leader = cluster.leader().await;
        let survivors: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let opened = Arc::new(AtomicUsize::new(0));
        let opening: Vec<_> = survivors
            .iter()
            .map(|at| {
                tokio::spawn(open(cluster.members[*at].client(), stop.clone(), opened.clone()))
            })
            .collect();
        eventually("streams are open", async || {
            if opened.load(Ordering::Relaxed) > 20 { Ok(()) } else { Err("few".to_owned()) }
        })
        .await;
        let before = opened.load(Ordering::Relaxed);
        cluster.members[leader].kill();
        cluster.leader_among(&survivors).await;
        opened_vacant += opened.load(Ordering::Relaxed) - before;
        stop.store(true, Ordering::Relaxed);
        let mut streams = vec![];
        for opening in opening {
            streams.extend(opening.await.expect("no stream was refused"));
        }
        // All of them hear of the next change: none has ended.
        let put = pb::PutRequest {
            key: "k".into(),
            value: round.to_string().into(),
            ..Default::default()
        };
        cluster.members[survivors[0]].client().kv().put(put).await.unwrap();
        for stream in &mut streams {
            let answer = stream.next().await;
            assert_eq!(answer.events.len(), 1, "{answer:?}");
        }
        kept += streams.len();
        cluster.members[leader].start();
        cluster.ready().await;
    }
    assert!(opened_vacant > KILLS && kept > 20 * KILLS, "{opened_vacant} {kept}");
}
