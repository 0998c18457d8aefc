//! Transactions over a few lists: read some, and append to them if they are still as they were read.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tenure::grpc::{Client, ClientError};
use tokio::task::JoinHandle;

use super::{Check, Stop};
use crate::{
    eventually_within, pb,
    torture::{
        Chance, Ground,
        cycles::{self, Element, Fate, Transaction},
    },
};

/// Clients at every member.
const PER_MEMBER: usize = 2;
/// Lists in use at a time.
const LISTS: usize = 3;
/// After so many elements new lists are begun: a transaction carries whole lists.
const ELEMENTS_MAX: usize = 200;
const FAILED_PAUSE: Duration = Duration::from_millis(20);
/// How long the last read may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The prefix of all lists.
const PREFIX: &str = "append";

type Lists = BTreeMap<String, Vec<Element>>;

/// Clients at work on lists.
pub(super) struct Appends {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

struct Shared {
    began: Instant,
    next: AtomicU64,
    appended: AtomicUsize,
    history: Mutex<Vec<Transaction>>,
}

/// One client.
struct Work {
    client: Client,
    shared: Arc<Shared>,
    chance: Chance,
}

/// A list and the revision of its key.
type Seen = BTreeMap<String, (Vec<Element>, i64)>;

impl Appends {
    pub(super) fn start(
        ground: &Ground,
        chance: &mut Chance,
        pause: Duration,
        stop: &Stop,
    ) -> Appends {
        let shared = Arc::new(Shared {
            began: Instant::now(),
            next: AtomicU64::new(1),
            appended: AtomicUsize::new(0),
            history: Mutex::default(),
        });
        let clients = (0..PER_MEMBER * ground.count()).map(|number| {
            let client = ground.client(number % ground.count()).clone();
            let work = Work { client, shared: Arc::clone(&shared), chance: chance.branch() };
            tokio::spawn(work.run(pause, stop.clone()))
        });
        Appends { clients: clients.collect(), shared }
    }

    /// Ends the work, reads every list once more, and judges.
    pub(super) async fn stop(self, ground: &Ground) -> Check {
        for client in self.clients {
            client.await.expect("a client does not panic");
        }
        let client = ground.any();
        let range = pb::RangeRequest {
            key: format!("{PREFIX}/").into(),
            range_end: format!("{PREFIX}0").into(),
            ..Default::default()
        };
        let asked = self.shared.now();
        let found = eventually_within(PATIENCE, "the last read of all lists", async || {
            client.kv().range(range.clone()).await.map_err(|error| error.to_string())
        })
        .await;
        let last: Lists = found.kvs.iter().map(|kv| (text(&kv.key), elements(&kv.value))).collect();
        let mut history = std::mem::take(
            &mut *self.shared.history.lock().unwrap_or_else(PoisonError::into_inner),
        );
        let (reads, appends) = (last.clone(), Lists::new());
        let answered = self.shared.now();
        history.push(Transaction { asked, answered, fate: Fate::Committed, reads, appends });
        let (extent, anomalies) = cycles::check(&history, &last);
        let mut wrong: Vec<String> = anomalies
            .iter()
            .map(|anomaly| match anomaly {
                cycles::Anomaly::Cycle(kind, numbers) => {
                    let all: Vec<_> = numbers.iter().map(|number| &history[*number]).collect();
                    format!("{kind}: {all:?}")
                }
                other => format!("{other:?}"),
            })
            .collect();
        wrong.truncate(5);
        let fates = |fate| history.iter().filter(|one| one.fate == fate).count();
        if extent.edges < extent.transactions {
            wrong.push(format!("too few to prove anything: {extent:?}"));
        }
        let against = [
            ("transactions", extent.transactions),
            ("edges", extent.edges),
            ("not done", fates(Fate::Aborted)),
            ("unknown", fates(Fate::Unknown)),
            ("of those done", extent.resolved),
        ];
        Check::new("transactions are strictly serializable", &against, wrong)
    }
}

impl Shared {
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn add(&self, transaction: Transaction) {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).push(transaction);
    }
}

impl Work {
    async fn run(mut self, pause: Duration, stop: Stop) {
        while !stop.told() {
            tokio::time::sleep(pause).await;
            if self.once().await.is_err() {
                tokio::time::sleep(FAILED_PAUSE).await;
            }
        }
    }

    /// Reads some lists together, and mostly appends to some of them.
    async fn once(&mut self) -> Result<(), ClientError> {
        let keys = self.some_keys();
        let asked = self.shared.now();
        let read = pb::TxnRequest {
            success: keys.iter().map(|key| range(key)).collect(),
            ..Default::default()
        };
        let answer = self.client.kv().txn(read).await?;
        let seen = found(&keys, answer.responses);
        self.note(asked, Fate::Committed, &seen, Lists::new());
        if self.chance.percent(25) {
            return Ok(());
        }
        let mut appends = Lists::new();
        for key in &keys {
            if appends.is_empty() || self.chance.percent(50) {
                let count = 1 + self.chance.below(2) as u64;
                let first = self.shared.next.fetch_add(count, Ordering::Relaxed);
                appends.insert(key.clone(), (first..first + count).collect());
            }
        }
        self.append(&keys, &seen, appends).await
    }

    async fn append(
        &self,
        keys: &[String],
        seen: &Seen,
        appends: Lists,
    ) -> Result<(), ClientError> {
        let txn = pb::TxnRequest {
            compare: seen.iter().map(|(key, (_, revision))| unchanged(key, *revision)).collect(),
            success: appends.iter().map(|(key, new)| put(key, &seen[key].0, new)).collect(),
            failure: keys.iter().map(|key| range(key)).collect(),
        };
        let asked = self.shared.now();
        match self.client.kv().txn(txn).await {
            Ok(answer) if answer.succeeded => {
                self.shared.appended.fetch_add(appends.len(), Ordering::Relaxed);
                self.note(asked, Fate::Committed, seen, appends);
                Ok(())
            }
            Ok(answer) => {
                self.note(asked, Fate::Aborted, &Seen::new(), appends);
                self.note(asked, Fate::Committed, &found(keys, answer.responses), Lists::new());
                Ok(())
            }
            Err(error) => {
                let fate = if error.outcome_unknown() { Fate::Unknown } else { Fate::Aborted };
                // If it was done, then on what it had read.
                self.note(asked, fate, seen, appends);
                Err(error)
            }
        }
    }

    fn note(&self, asked: u64, fate: Fate, seen: &Seen, appends: Lists) {
        let reads = seen.iter().map(|(key, (list, _))| (key.clone(), list.clone())).collect();
        let answered = self.shared.now();
        self.shared.add(Transaction { asked, answered, fate, reads, appends });
    }

    fn some_keys(&mut self) -> Vec<String> {
        let generation = self.shared.appended.load(Ordering::Relaxed) / ELEMENTS_MAX;
        let mut numbers: Vec<usize> = (0..LISTS).collect();
        self.chance.shuffle(&mut numbers);
        numbers.truncate(1 + self.chance.below(LISTS));
        numbers.sort_unstable();
        numbers.into_iter().map(|number| format!("{PREFIX}/{generation:05}/{number}")).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn elements(value: &[u8]) -> Vec<Element> {
    let text = text(value);
    let parse = |word: &str| word.parse().unwrap_or_else(|_| panic!("nobody wrote {text:?}"));
    text.split(',').map(parse).collect()
}

fn op(request: pb::request_op::Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

fn range(key: &str) -> pb::RequestOp {
    let range = pb::RangeRequest { key: key.to_owned().into(), ..Default::default() };
    op(pb::request_op::Request::RequestRange(range))
}

fn put(key: &str, old: &[Element], new: &[Element]) -> pb::RequestOp {
    let words: Vec<String> = old.iter().chain(new).map(ToString::to_string).collect();
    let put = pb::PutRequest {
        key: key.to_owned().into(),
        value: words.join(",").into(),
        ..Default::default()
    };
    op(pb::request_op::Request::RequestPut(put))
}

fn unchanged(key: &str, revision: i64) -> pb::Compare {
    use pb::compare::{CompareResult, CompareTarget, TargetUnion};
    pb::Compare {
        key: key.to_owned().into(),
        target: CompareTarget::Mod as i32,
        result: CompareResult::Equal as i32,
        target_union: Some(TargetUnion::ModRevision(revision)),
        ..Default::default()
    }
}

/// What ranges over single keys found, in the order in which they were asked for.
fn found(keys: &[String], responses: Vec<pb::ResponseOp>) -> Seen {
    let lists = responses.into_iter().map(|response| match response.response {
        Some(pb::response_op::Response::ResponseRange(found)) => {
            let first = found.kvs.first();
            first.map_or((vec![], 0), |kv| (elements(&kv.value), kv.mod_revision))
        }
        other => panic!("a range was answered as {other:?}"),
    });
    keys.iter().cloned().zip(lists).collect()
}
