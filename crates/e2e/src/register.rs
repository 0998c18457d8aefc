//! One key that is written all the time, and readers that must never see an old state of it.
//!
//! A linearizable read that starts after a write was acknowledged must see that write, whichever member
//! it asks and whatever happens to the cluster meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use tenure::grpc::{Client, stubs::KvClient};
use tokio::task::{JoinHandle, JoinSet};
use tonic::transport::Channel;

use crate::{Cluster, Member, eventually, pb};

/// Pause after a failed request.
const FAILED_PAUSE: Duration = Duration::from_millis(5);
/// How long the writer waits for a member before it turns to the next.
const WRITE_PATIENCE: Duration = Duration::from_millis(200);
/// A read is begun so often on every member, whether the ones before were answered or not: when a
/// stopped member continues, questions of every age wait for it.
const READ_INTERVAL: Duration = Duration::from_millis(10);
/// How long an answer may take.
const READ_PATIENCE: Duration = Duration::from_secs(5);

/// A writer that knows all members, and a reader for each.
pub struct Register {
    shared: Arc<Shared>,
    writer: JoinHandle<()>,
    readers: Vec<JoinHandle<usize>>,
}

struct Shared {
    key: String,
    /// The newest revision that a write was told. A write that was given up may still
    /// come later, with a higher revision; that is why revisions are compared and not values.
    acknowledged: AtomicI64,
    stop: AtomicBool,
}

impl Register {
    /// Starts them on a key of their own.
    pub fn start(cluster: &Cluster, key: &str) -> Register {
        let shared = Arc::new(Shared {
            key: key.to_owned(),
            acknowledged: AtomicI64::new(0),
            stop: AtomicBool::new(false),
        });
        let writers = cluster.members.iter().map(Member::client).collect();
        let writer = tokio::spawn(shared.clone().write(writers));
        let readers = cluster
            .members
            .iter()
            .map(|member| tokio::spawn(shared.clone().read(member.name.clone(), member.client())));
        Register { readers: readers.collect(), shared, writer }
    }

    /// Waits until so many more revisions were acknowledged.
    pub async fn progress(&self, more: i64) {
        let goal = self.shared.acknowledged.load(Ordering::SeqCst) + more;
        eventually("the register is written", async || {
            match self.shared.acknowledged.load(Ordering::SeqCst) {
                now if now >= goal => Ok(()),
                now => Err(format!("{now} of {goal}")),
            }
        })
        .await;
    }

    /// Ends it; fails if a read was stale, or if no read succeeded at all.
    pub async fn stop(self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.writer.await.expect("the writer does not panic");
        let mut reads = 0;
        for reader in self.readers {
            reads += reader.await.expect("no read may be stale");
        }
        let writes = self.shared.acknowledged.load(Ordering::SeqCst);
        assert!(reads > 0 && writes > 0, "{reads} reads prove nothing");
    }
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    async fn write(self: Arc<Shared>, clients: Vec<Client>) {
        let mut at = 0;
        while self.goes_on() {
            let put = pb::PutRequest { key: self.key.clone().into(), ..Default::default() };
            let mut kv = KvClient::new(clients[at % clients.len()].channel());
            match tokio::time::timeout(WRITE_PATIENCE, kv.put(put)).await {
                Ok(Ok(answer)) => {
                    let revision = answer.get_ref().header.as_ref().map_or(0, |h| h.revision);
                    self.acknowledged.store(revision, Ordering::SeqCst);
                }
                _ => {
                    at += 1;
                    tokio::time::sleep(FAILED_PAUSE).await;
                }
            }
        }
    }

    /// Begins reads until told to stop; answers how many of them were answered.
    async fn read(self: Arc<Shared>, member: String, client: Client) -> usize {
        let mut reads = JoinSet::new();
        while self.goes_on() {
            reads.spawn(self.clone().read_once(member.clone(), KvClient::new(client.channel())));
            tokio::time::sleep(READ_INTERVAL).await;
        }
        reads.join_all().await.into_iter().filter(|answered| *answered).count()
    }

    async fn read_once(self: Arc<Shared>, member: String, mut kv: KvClient<Channel>) -> bool {
        let least = self.acknowledged.load(Ordering::SeqCst);
        let range = pb::RangeRequest { key: self.key.clone().into(), ..Default::default() };
        let Ok(Ok(found)) = tokio::time::timeout(READ_PATIENCE, kv.range(range)).await else {
            return false;
        };
        let seen = found.get_ref().kvs.first().map_or(0, |kv| kv.mod_revision);
        assert!(seen >= least, "{member} answered revision {seen} after {least} was acknowledged");
        true
    }
}
