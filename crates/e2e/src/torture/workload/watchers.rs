//! Watchers that must be told everything once and in order, at every member, through whatever happens.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tenure::grpc::{Client, ClientError, Resumed};
use tokio::task::JoinHandle;

use super::{
    Check,
    holders::GUARDED,
    registers::{PREFIX, Registered},
};
use crate::{
    eventually_within,
    mvccpb::event::EventType,
    pb,
    torture::{Ground, history::Value},
};

/// How long a watcher may take to hear of the last write, with all members well.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before a watch that could not be resumed is opened again.
const AGAIN: Duration = Duration::from_millis(50);

/// One event, as it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) revision: i64,
    pub(super) key: String,
    /// What was written; nothing for a deletion.
    pub(super) value: Option<String>,
    version: i64,
}

/// A watcher at work.
struct Watcher {
    name: String,
    told: Arc<Mutex<Vec<Told>>>,
    next: Arc<AtomicI64>,
    wrong: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

/// One watcher at every member for the registers, and one for what is guarded.
pub(super) struct Watchers {
    watchers: Vec<Watcher>,
}

/// What every one of them was told.
pub(super) struct Everything {
    watched: Vec<(String, Vec<Told>)>,
    wrong: Vec<String>,
}

/// The name of the last key of a prefix: all that comes before it was told before.
fn last_key(prefix: &str) -> String {
    format!("{prefix}/~last")
}

impl Watchers {
    pub(super) fn start(ground: &Ground) -> Watchers {
        let mut watchers = Vec::new();
        for at in 0..ground.count() {
            let name = format!("at {}", ground.cluster.members[at].name);
            watchers.push(Watcher::start(name, ground.client(at).clone(), PREFIX));
        }
        watchers.push(Watcher::start("anywhere".to_owned(), ground.any(), PREFIX));
        watchers.push(Watcher::start(GUARDED.to_owned(), ground.any(), GUARDED));
        Watchers { watchers }
    }

    /// How far each of them is.
    pub(super) fn progress(&self) -> Vec<Arc<AtomicI64>> {
        self.watchers.iter().map(|watcher| Arc::clone(&watcher.next)).collect()
    }

    /// Waits until all were told of a last write.
    pub(super) async fn stop(self, ground: &Ground) -> Everything {
        let client = ground.any();
        for prefix in [PREFIX, GUARDED] {
            let put = pb::PutRequest { key: last_key(prefix).into(), ..Default::default() };
            eventually_within(PATIENCE, "the last write", async || {
                client.kv().put(put.clone()).await.map_err(|error| error.to_string())
            })
            .await;
        }
        let mut everything = Everything { watched: Vec::new(), wrong: Vec::new() };
        for watcher in self.watchers {
            let prefix = if watcher.name == GUARDED { GUARDED } else { PREFIX };
            let last = last_key(prefix);
            eventually_within(
                PATIENCE,
                &format!("watcher {}: the last write", watcher.name),
                async || {
                    let told = watcher.told.lock().unwrap_or_else(PoisonError::into_inner);
                    let wrong = watcher.wrong.lock().unwrap_or_else(PoisonError::into_inner);
                    let heard = told.iter().any(|one| one.key == last) || !wrong.is_empty();
                    if heard { Ok(()) } else { Err(format!("{:?}", told.last())) }
                },
            )
            .await;
            watcher.task.abort();
            let told = watcher.told.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let wrong = watcher.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone();
            everything.wrong.extend(wrong.iter().map(|one| format!("{}: {one}", watcher.name)));
            everything.watched.push((watcher.name, told));
        }
        everything
    }
}

impl Watcher {
    fn start(name: String, client: Client, prefix: &'static str) -> Watcher {
        let told = Arc::new(Mutex::new(Vec::new()));
        let wrong = Arc::new(Mutex::new(Vec::new()));
        let next = Arc::new(AtomicI64::new(1));
        let task = tokio::spawn(watch(
            client,
            prefix,
            Arc::clone(&told),
            Arc::clone(&wrong),
            Arc::clone(&next),
        ));
        Watcher { name, told, next, wrong, task }
    }
}

/// Watches from the first revision on, for ever.
async fn watch(
    client: Client,
    prefix: &'static str,
    told: Arc<Mutex<Vec<Told>>>,
    wrong: Arc<Mutex<Vec<String>>>,
    next: Arc<AtomicI64>,
) {
    let say = |what: String| wrong.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    loop {
        let create = pb::WatchCreateRequest {
            key: format!("{prefix}/").into(),
            range_end: format!("{prefix}0").into(),
            start_revision: next.load(Ordering::Relaxed),
            progress_notify: true,
            ..Default::default()
        };
        let failed = match client.watch().resumed(create).await {
            Ok(mut watch) => listen(&mut watch, &told, &next).await,
            Err(error) => Failed::Broken(error),
        };
        match failed {
            Failed::Broken(ClientError::Refused { text, .. }) => return say(text),
            // No member could go on with it for a long time: we can.
            Failed::Broken(_) => tokio::time::sleep(AGAIN).await,
            Failed::Wrong(what) => return say(what),
        }
    }
}

enum Failed {
    Broken(ClientError),
    Wrong(String),
}

async fn listen(watch: &mut Resumed, told: &Mutex<Vec<Told>>, next: &AtomicI64) -> Failed {
    loop {
        let answer = match watch.next().await {
            Ok(answer) => answer,
            Err(error) => return Failed::Broken(error),
        };
        if answer.canceled {
            return Failed::Wrong(format!(
                "cancelled at {}, compacted {}: {}",
                next.load(Ordering::Relaxed),
                answer.compact_revision,
                answer.cancel_reason
            ));
        }
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        for event in answer.events {
            let deleted = event.r#type() == EventType::Delete;
            let Some(kv) = event.kv else {
                return Failed::Wrong("an event without a key".to_owned());
            };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            told.push(Told {
                revision: kv.mod_revision,
                key: text(&kv.key),
                value: (!deleted).then(|| text(&kv.value)),
                version: kv.version,
            });
        }
        next.store(watch.next_revision(), Ordering::Relaxed);
    }
}

impl Everything {
    /// What was told of the guarded keys.
    pub(super) fn guarded(&self) -> &[Told] {
        let found = self.watched.iter().find(|(name, _)| name == GUARDED);
        found.map_or(&[], |(_, told)| told)
    }

    /// All of it, in order, once; the same everywhere; and what the store and the writers say.
    pub(super) async fn whole(&self, ground: &Ground, registers: &Registered) -> Check {
        let mut wrong = self.wrong.clone();
        for (name, told) in &self.watched {
            let faults = order(told).into_iter().chain(versions(told));
            wrong.extend(faults.map(|fault| format!("watcher {name}: {fault}")));
        }
        let of_registers: Vec<_> =
            self.watched.iter().filter(|(name, _)| name != GUARDED).collect();
        for pair in of_registers.windows(2) {
            if let Some(fault) = difference(&pair[0].1, &pair[1].1) {
                wrong.push(format!("watchers {} and {} differ: {fault}", pair[0].0, pair[1].0));
            }
        }
        let first = &of_registers[0].1;
        wrong.extend(against_store(first, ground).await);
        wrong.extend(against_writers(first, &registers.history().revisions()));
        let events: usize = self.watched.iter().map(|(_, told)| told.len()).sum();
        let against = [("watchers", self.watched.len()), ("events", events)];
        Check::new("watchers were told everything once", &against, wrong)
    }
}

/// Every write of ours changes one key, so every event has a revision of its own.
fn order(told: &[Told]) -> Vec<String> {
    let back = told.windows(2).filter(|pair| pair[1].revision <= pair[0].revision);
    back.map(|pair| format!("{:?} after {:?}", pair[1], pair[0])).take(3).collect()
}

/// A put has the version after the one before: a gap or a repetition would show here.
fn versions(told: &[Told]) -> Vec<String> {
    let mut versions: BTreeMap<&str, i64> = BTreeMap::new();
    let mut wrong = Vec::new();
    for one in told {
        let version = versions.entry(&one.key).or_insert(0);
        let expected = if one.value.is_some() { *version + 1 } else { 0 };
        if one.version != expected {
            wrong.push(format!("{one:?} after version {version}"));
        }
        *version = one.version;
    }
    wrong.truncate(3);
    wrong
}

fn difference(a: &[Told], b: &[Told]) -> Option<String> {
    let at = (0..a.len().max(b.len())).find(|at| a.get(*at) != b.get(*at))?;
    Some(format!("event {at}: {:?} and {:?}", a.get(at), b.get(at)))
}

async fn against_store(told: &[Told], ground: &Ground) -> Vec<String> {
    let mut kept: BTreeMap<&str, (i64, &str)> = BTreeMap::new();
    for one in told {
        match &one.value {
            Some(value) => drop(kept.insert(&one.key, (one.revision, value))),
            None => drop(kept.remove(one.key.as_str())),
        }
    }
    let range = pb::RangeRequest {
        key: format!("{PREFIX}/").into(),
        range_end: format!("{PREFIX}0").into(),
        ..Default::default()
    };
    let client = ground.any();
    let found = eventually_within(PATIENCE, "a read of all registers", async || {
        client.kv().range(range.clone()).await.map_err(|error| error.to_string())
    })
    .await;
    let mut wrong = Vec::new();
    for kv in &found.kvs {
        let (key, value) = (String::from_utf8_lossy(&kv.key), String::from_utf8_lossy(&kv.value));
        let believed = kept.remove(key.as_ref());
        if believed != Some((kv.mod_revision, value.as_ref())) {
            wrong.push(format!("{key} is {value} at {}, told {believed:?}", kv.mod_revision));
        }
    }
    wrong.extend(kept.keys().map(|key| format!("{key} is not there, and nobody was told")));
    wrong.truncate(5);
    wrong
}

/// Every write that was acknowledged or seen was told at its revision.
fn against_writers(told: &[Told], revisions: &BTreeMap<Value, i64>) -> Vec<String> {
    let told: BTreeMap<Value, i64> = told
        .iter()
        .filter_map(|one| Some((one.value.as_ref()?.parse().ok()?, one.revision)))
        .collect();
    let missing = revisions.iter().filter(|(value, revision)| told.get(value) != Some(revision));
    missing
        .map(|(value, revision)| {
            format!("value {value} was at revision {revision}, told {:?}", told.get(value))
        })
        .take(5)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Everything {
        /// A watcher of guarded keys that was told of these writes: revision, key, token.
        pub(in crate::torture) fn of_guarded(
            writes: impl Iterator<Item = (i64, String, i64)>,
        ) -> Everything {
            let told = writes.map(|(revision, key, token)| {
                let value = Some(token.to_string());
                Told { revision, key, value, version: 0 }
            });
            Everything { watched: vec![(GUARDED.to_owned(), told.collect())], wrong: vec![] }
        }
    }

    /// A key that is written twice, deleted, and written again.
    fn well_told() -> Vec<Told> {
        [(2, Some("1"), 1), (3, Some("2"), 2), (5, None, 0), (8, Some("3"), 1)]
            .map(|(revision, value, version)| Told {
                revision,
                key: "k".to_owned(),
                value: value.map(str::to_owned),
                version,
            })
            .to_vec()
    }

    fn faults(told: &[Told]) -> usize {
        order(told).len() + versions(told).len()
    }

    #[test]
    fn a_gap_a_repetition_and_another_order_are_seen() {
        assert_eq!(faults(&well_told()), 0);
        let mut gap = well_told();
        gap.remove(0);
        assert!(faults(&gap) > 0);
        // Before a deletion it does not show by itself, but against what the others were told.
        let mut gap = well_told();
        gap.remove(1);
        assert!(difference(&gap, &well_told()).is_some());
        let mut repeated = well_told();
        repeated.insert(1, repeated[0].clone());
        assert!(faults(&repeated) > 0);
        let mut swapped = well_told();
        swapped.swap(0, 1);
        assert!(faults(&swapped) > 0);
        assert_eq!(difference(&well_told(), &well_told()), None);
        assert!(difference(&well_told(), &well_told()[..3]).is_some(), "the end is missing");
    }

    #[test]
    fn a_write_that_nobody_was_told_of_is_seen() {
        assert_eq!(against_writers(&well_told(), &BTreeMap::from([(2, 3), (3, 8)])).len(), 0);
        assert_eq!(against_writers(&well_told(), &BTreeMap::from([(2, 4)])).len(), 1);
        assert_eq!(against_writers(&well_told(), &BTreeMap::from([(9, 3)])).len(), 1);
    }
}
