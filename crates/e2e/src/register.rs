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
use tokio::task::JoinHandle;

use crate::{Cluster, Member, pb};

/// Pause after a failed request.
const FAILED_PAUSE: Duration = Duration::from_millis(5);
/// A member that was stopped answers late; its reader asks again then.
const READ_PATIENCE: Duration = Duration::from_secs(1);

/// A writer that knows all members, and a reader for each.
pub struct Register {
    shared: Arc<Shared>,
    writer: JoinHandle<()>,
    readers: Vec<JoinHandle<usize>>,
}

struct Shared {
    key: String,
    /// The newest revision that a write was told. A write that nobody waits for any more may still
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
        let readers = cluster.members.iter().map(|member| {
            tokio::spawn(shared.clone().read(member.name.clone(), member.client()))
        });
        Register { readers: readers.collect(), shared, writer }
    }

    /// Ends it; fails if a read was stale, or if nobody could read at all.
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
        for number in 0.. {
            if !self.goes_on() {
                return;
            }
            let put = pb::PutRequest {
                key: self.key.clone().into(),
                ..Default::default()
            };
            let mut kv = KvClient::new(clients[number % clients.len()].channel());
            match tokio::time::timeout(READ_PATIENCE, kv.put(put)).await {
                Ok(Ok(answer)) => {
                    let revision = answer.get_ref().header.as_ref().map_or(0, |h| h.revision);
                    self.acknowledged.store(revision, Ordering::SeqCst);
                }
                _ => tokio::time::sleep(FAILED_PAUSE).await,
            }
        }
    }

    /// How many reads there were.
    async fn read(self: Arc<Shared>, member: String, client: Client) -> usize {
        let mut kv = KvClient::new(client.channel());
        let mut reads = 0;
        while self.goes_on() {
            let least = self.acknowledged.load(Ordering::SeqCst);
            let range = pb::RangeRequest { key: self.key.clone().into(), ..Default::default() };
            let Ok(Ok(found)) = tokio::time::timeout(READ_PATIENCE, kv.range(range)).await else {
                tokio::time::sleep(FAILED_PAUSE).await;
                continue;
            };
            let seen = found.get_ref().kvs.first().map_or(0, |kv| kv.mod_revision);
            assert!(seen >= least, "{member} answered revision {seen} after {least} was acknowledged");
            reads += 1;
        }
        reads
    }
}
