//! Writers that remember what they were told.
//!
//! Every write has a key of its own and is sent once. So a write that was acknowledged must be there,
//! and no key may have a version above 1: that would be a write that was applied twice.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tenure::grpc::Client;
use tokio::task::JoinHandle;

use crate::{eventually, mvccpb::KeyValue, pb};

/// Pause after a failed write, so that a member that is gone is not hammered.
const FAILED_PAUSE: Duration = Duration::from_millis(5);

/// What became of the writes of a load.
#[derive(Debug, Default)]
pub struct Record {
    /// Keys that were acknowledged, with the revision they were told.
    pub acknowledged: BTreeMap<String, i64>,
    /// Keys whose fate is unknown, and the error.
    pub unknown: BTreeMap<String, String>,
    /// Keys that were refused for certain, and the error.
    pub refused: BTreeMap<String, String>,
}

/// Writers at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    writers: Vec<JoinHandle<Record>>,
}

impl Load {
    /// Starts a writer for each client. `prefix` keeps loads apart.
    pub fn start(prefix: &str, clients: Vec<Client>) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicUsize::new(0));
        let writers = clients.into_iter().enumerate().map(|(number, client)| {
            let prefix = format!("{prefix}/{number}/");
            tokio::spawn(write(client, prefix, stop.clone(), done.clone()))
        });
        Load { writers: writers.collect(), stop, done }
    }

    /// Writes acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits until so many more writes were acknowledged.
    pub async fn progress(&self, more: usize) {
        let goal = self.acknowledged() + more;
        eventually("writes go on", async || match self.acknowledged() {
            now if now >= goal => Ok(()),
            now => Err(format!("{now} of {goal}")),
        })
        .await;
    }

    /// Ends the load.
    pub async fn stop(self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Record::default();
        for writer in self.writers {
            let one = writer.await.expect("a writer does not panic");
            all.acknowledged.extend(one.acknowledged);
            all.unknown.extend(one.unknown);
            all.refused.extend(one.refused);
        }
        all
    }
}

async fn write(
    client: Client,
    prefix: String,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
) -> Record {
    let mut record = Record::default();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{prefix}{number:06}");
        let put = pb::PutRequest {
            key: key.clone().into(),
            value: key.clone().into(),
            ..Default::default()
        };
        match client.kv().put(put).await {
            Ok(answer) => {
                record.acknowledged.insert(key, answer.header.map_or(0, |header| header.revision));
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                let fates =
                    if error.outcome_unknown() { &mut record.unknown } else { &mut record.refused };
                fates.insert(key, error.to_string());
                tokio::time::sleep(FAILED_PAUSE).await;
            }
        }
    }
    record
}

impl Record {
    /// Checks the record against what a linearizable read of the whole prefix finds.
    pub async fn check(&self, client: &Client, prefix: &str) {
        let wrong = self.wrong(client, prefix).await;
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// What does not fit to what a linearizable read of the whole prefix finds.
    pub async fn wrong(&self, client: &Client, prefix: &str) -> Vec<String> {
        let found = everything(client, prefix).await;
        let mut wrong = Vec::new();
        if self.acknowledged.is_empty() {
            wrong.push("a load that wrote nothing proves nothing".to_owned());
        }
        for (key, revision) in &self.acknowledged {
            match found.get(key).map(|kv| kv.mod_revision) {
                Some(found) if found == *revision => {}
                Some(found) => wrong.push(format!("{key}: at {found}, acknowledged at {revision}")),
                None => {
                    wrong.push(format!("{key} was acknowledged at {revision} and is not there"))
                }
            }
        }
        for (key, kv) in &found {
            if kv.version != 1 {
                wrong.push(format!("{key} was applied {} times", kv.version));
            }
            if let Some(refused) = self.refused.get(key) {
                wrong.push(format!("{key} was refused and is there: {refused}"));
            } else if !self.acknowledged.contains_key(key) && !self.unknown.contains_key(key) {
                wrong.push(format!("{key} is there and nobody wrote it"));
            }
        }
        wrong
    }

    /// Fails if any write failed.
    pub fn assert_no_failure(&self) {
        assert!(
            self.unknown.is_empty() && self.refused.is_empty(),
            "of {} writes: unknown {:?}, refused {:?}",
            self.acknowledged.len(),
            self.unknown,
            self.refused
        );
    }
}

/// All keys under `prefix/`, read in portions at one revision.
async fn everything(client: &Client, prefix: &str) -> BTreeMap<String, KeyValue> {
    let range = pb::RangeRequest {
        key: format!("{prefix}/").into(),
        range_end: format!("{prefix}0").into(),
        ..Default::default()
    };
    let found = eventually("a read of everything", async || {
        client.kv().range(range.clone()).await.map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(found.count as usize, found.kvs.len());
    let name = |kv: &KeyValue| String::from_utf8_lossy(&kv.key).into_owned();
    found.kvs.into_iter().map(|kv| (name(&kv), kv)).collect()
}
