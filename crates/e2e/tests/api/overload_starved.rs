//! Ten times as much as members carry that get a tenth of a processor.
//!
//! Each put is large and little to do, so that what a member cannot keep up with is to read it at all. The sessions of the
//! flooded member are renewed over connections of their own; those must be heard behind the flood.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use rustix::process::Signal;
use tenure_e2e::{Cluster, Flood, send};

use super::{
    overload::{Sessions, writes_again},
    overload_measured::{carried, search_and_write},
};

/// One member runs for so long, then the next, then none for a while: each gets a tenth of the time, and to stand still
/// for the rest of it is not long enough to count as a pause.
const RUNS: Duration = Duration::from_millis(8);
const NOBODY_RUNS: Duration = Duration::from_millis(56);
const MEASURED: Duration = Duration::from_secs(5);
const OFFERED: Duration = Duration::from_secs(20);
const FACTOR: f64 = 10.0;
const SESSIONS: usize = 30;

/// Members that get a tenth of the time, until it is dropped.
struct Starved {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Starved {
    fn begin(cluster: &Cluster) -> Starved {
        let pids: Vec<u32> = cluster.members.iter().map(|member| member.pid()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !seen.load(Relaxed) {
                for pid in &pids {
                    send(*pid, Signal::CONT);
                    std::thread::sleep(RUNS);
                    send(*pid, Signal::STOP);
                }
                std::thread::sleep(NOBODY_RUNS);
            }
            pids.iter().for_each(|pid| send(*pid, Signal::CONT));
        });
        Starved { stop, thread: Some(thread) }
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn overload_of_starved_members_loses_no_session() {
    let cluster = Cluster::start(3).await;
    let flooded = cluster.members[cluster.other_than(cluster.leader().await)].client;
    let starved = Starved::begin(&cluster);
    let put = search_and_write(0);
    let carried = carried(flooded, put.clone(), MEASURED).await;
    let sessions = Sessions::start(&cluster, SESSIONS, OFFERED + Duration::from_secs(3)).await;
    let flood = Flood::open(flooded, FACTOR * carried, put);
    let (offered, done) = flood.per_second(OFFERED).await;
    println!(
        "it carries {carried:.0}/s; {offered:.0}/s offered, {done:.0}/s done meanwhile; {:?}",
        flood.tally
    );
    drop(flood);
    sessions.all_lived().await;
    drop(starved);
    // The load must have been too much. How much of it gets done depends on the machine; it must not be nothing.
    assert!(offered >= 0.5 * FACTOR * carried, "{offered:.0} for {carried:.0}");
    assert!(done > 0.0, "nothing of {carried:.0}");
    writes_again(&cluster).await;
}
