//! What a log does to keys and leases, reckoned as simply as possible.

use std::collections::BTreeMap;

use tenure_api::{
    Compare, CompareResult, CompareTarget, Event, EventKind, LeaseId, Op, Put, Revision, Span, Txn,
};
use tenure_replica::{Applied, Outcome, command::Command};

/// Keys of this prefix hold megabytes, and no client asks for them.
const IGNORED: &[u8] = b"filler/";

/// One version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Since when.
    pub revision: i64,
    /// What was written; none if it was deleted.
    pub value: Option<Vec<u8>>,
    /// The lease that it hangs on.
    pub lease: Option<i64>,
}

/// What became of a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseStory {
    /// How often it was granted.
    pub grants: usize,
    /// Renewals that it lived for.
    pub renewals: usize,
    /// Whether it ended.
    pub ended: bool,
    /// The log index of the last grant or renewal.
    last: u64,
}

/// Everything that a log did.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Every version of every key, oldest first.
    pub keys: BTreeMap<Vec<u8>, Vec<Version>>,
    /// Every key and value that was written by a put, and at which revisions.
    pub values: BTreeMap<(Vec<u8>, Vec<u8>), Vec<i64>>,
    /// Deletions of single keys that found the key.
    pub deletions: BTreeMap<Vec<u8>, Vec<i64>>,
    /// Leases by etcd's means.
    pub leases: BTreeMap<i64, LeaseStory>,
    /// The newest revision.
    pub revision: i64,
    /// The highest revision that was compacted.
    pub compacted: i64,
    /// Entries and commands.
    pub entries: usize,
    /// Commands that took effect.
    pub commands: usize,
    /// Where the model and the server's state machine differ, and other things that must not be.
    pub wrong: Vec<String>,
}

impl Log {
    /// What a key holds at a revision.
    pub fn at(&self, key: &[u8], revision: i64) -> Option<&[u8]> {
        let versions = self.keys.get(key)?;
        let after = versions.partition_point(|version| version.revision <= revision);
        versions.get(after.checked_sub(1)?)?.value.as_deref()
    }

    /// When a key was last changed, as of a revision.
    pub fn changed_at(&self, key: &[u8], revision: i64) -> i64 {
        let Some(versions) = self.keys.get(key) else { return 0 };
        let after = versions.partition_point(|version| version.revision <= revision);
        after.checked_sub(1).map_or(0, |at| versions[at].revision)
    }

    /// Follows one command.
    pub fn follow(&mut self, applied: &Applied<'_>) {
        self.commands += 1;
        let before = self.revision;
        let mut changes = Vec::new();
        let mut known = true;
        match (applied.command, applied.outcome) {
            (Command::Put(put), Ok(_)) => changes.push(self.put(put)),
            (Command::DeleteRange(delete), Ok(_)) => changes.extend(self.delete(&delete.span)),
            (Command::Txn(txn), Ok(Outcome::Txn(result))) => {
                let holds = txn.compare.iter().all(|compare| self.holds(compare));
                if holds != result.succeeded {
                    self.wrong.push(format!("entry {}: {txn:?} held: {holds}", applied.at.index));
                }
                self.txn(txn, &mut changes);
            }
            (Command::Compact(revision), Ok(_)) => {
                self.compacted = self.compacted.max(revision.0);
            }
            (_, Err(_)) => {}
            _ => known = false,
        }
        self.lease(applied);
        if known {
            self.expect(applied, before, &changes);
        }
        for change in applied.changes {
            self.take(change.revision, &change.events);
        }
    }

    /// What the model expects must be what the server's state machine did, at the next revision.
    fn expect(
        &mut self,
        applied: &Applied<'_>,
        before: i64,
        changes: &[(Vec<u8>, Option<Vec<u8>>)],
    ) {
        let mut expected: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
        for (key, value) in changes {
            expected.insert(key, value.as_deref());
        }
        let first = applied.changes.first().filter(|_| !expected.is_empty());
        let done: BTreeMap<&[u8], Option<&[u8]>> = first
            .iter()
            .flat_map(|change| change.events.iter())
            .map(|event| {
                (&event.kv.key[..], (event.kind == EventKind::Put).then_some(&event.kv.value[..]))
            })
            .collect();
        let revision = first.map_or(before, |change| change.revision.0);
        let next = if expected.is_empty() { before } else { before + 1 };
        if done != expected || revision != next || applied.revision.0 != next {
            let index = applied.at.index;
            self.wrong.push(format!(
                "entry {index}: {:?} at revision {revision} (answered {}), expected {next}",
                applied.command, applied.revision.0
            ));
        }
        for (key, value) in changes {
            match value {
                Some(value) if !key.starts_with(IGNORED) => {
                    let written = (key.clone(), value.clone());
                    self.values.entry(written).or_default().push(revision);
                }
                Some(_) => {}
                None => self.deletions.entry(key.clone()).or_default().push(revision),
            }
        }
    }

    /// Notes what changed.
    fn take(&mut self, revision: Revision, events: &[Event]) {
        if revision.0 != self.revision + 1 && self.revision > 0 {
            self.wrong.push(format!("revision {} follows {}", revision.0, self.revision));
        }
        self.revision = revision.0;
        for event in events {
            let value = (event.kind == EventKind::Put).then(|| {
                let ignored = event.kv.key.starts_with(IGNORED);
                if ignored { Vec::new() } else { event.kv.value.to_vec() }
            });
            let versions = self.keys.entry(event.kv.key.to_vec()).or_default();
            let lease = event.kv.lease.map(|lease| lease.0);
            versions.push(Version { revision: revision.0, value, lease });
        }
    }

    fn live(&self, span: &Span) -> Vec<Vec<u8>> {
        let from = self.keys.range(span.start().to_vec()..);
        let inside = from.take_while(|(key, _)| span.contains(key));
        let live = inside
            .filter(|(_, versions)| versions.last().is_some_and(|version| version.value.is_some()));
        live.map(|(key, _)| key.clone()).collect()
    }

    fn put(&self, put: &Put) -> (Vec<u8>, Option<Vec<u8>>) {
        let value = put.value.as_ref().map(|value| value.to_vec());
        let same = || self.at(&put.key, i64::MAX).map(<[u8]>::to_vec).unwrap_or_default();
        (put.key.to_vec(), Some(value.unwrap_or_else(same)))
    }

    fn delete(&self, span: &Span) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        self.live(span).into_iter().map(|key| (key, None)).collect()
    }

    fn txn(&self, txn: &Txn, changes: &mut Vec<(Vec<u8>, Option<Vec<u8>>)>) {
        let holds = txn.compare.iter().all(|compare| self.holds(compare));
        for op in if holds { &txn.success } else { &txn.failure } {
            match op {
                Op::Range(_) => {}
                Op::Put(put) => changes.push(self.put(put)),
                Op::DeleteRange(delete) => changes.extend(self.delete(&delete.span)),
                Op::Txn(inner) => self.txn(inner, changes),
            }
        }
    }

    /// Whether a comparison holds.
    fn holds(&self, compare: &Compare) -> bool {
        let keys = self.live(&compare.span);
        let judge = |key: Option<&[u8]>| {
            let order = match &compare.target {
                CompareTarget::Mod(revision) => {
                    key.map_or(0, |key| self.changed_at(key, i64::MAX)).cmp(&revision.0)
                }
                CompareTarget::Create(revision) => {
                    key.map_or(0, |key| self.created_at(key)).cmp(&revision.0)
                }
                CompareTarget::Value(value) => {
                    let Some(found) = key.and_then(|key| self.at(key, i64::MAX)) else {
                        return false;
                    };
                    found.cmp(&value[..])
                }
                CompareTarget::Version(version) => {
                    key.map_or(0, |key| self.version_of(key)).cmp(version)
                }
                CompareTarget::Lease(lease) => {
                    let versions = key.and_then(|key| self.keys.get(key)?.last());
                    let found = versions.and_then(|version| version.lease);
                    found.unwrap_or(0).cmp(&lease.map_or(0, |lease| lease.0))
                }
            };
            match compare.result {
                CompareResult::Equal => order.is_eq(),
                CompareResult::Greater => order.is_gt(),
                CompareResult::Less => order.is_lt(),
                CompareResult::NotEqual => order.is_ne(),
            }
        };
        if keys.is_empty() { judge(None) } else { keys.iter().all(|key| judge(Some(key))) }
    }

    fn incarnation(&self, key: &[u8]) -> &[Version] {
        let versions = self.keys.get(key).map_or(&[][..], Vec::as_slice);
        let born = versions.iter().rposition(|version| version.value.is_none());
        &versions[born.map_or(0, |at| at + 1)..]
    }

    fn created_at(&self, key: &[u8]) -> i64 {
        self.incarnation(key).first().map_or(0, |version| version.revision)
    }

    fn version_of(&self, key: &[u8]) -> i64 {
        self.incarnation(key).len() as i64
    }

    /// A lease ends by a revoke, because it is unused, or by an expiry of the same term that had seen its last renewal.
    fn lease(&mut self, applied: &Applied<'_>) {
        let index = applied.at.index;
        let worked = applied.outcome.is_ok();
        let mut end = |id: LeaseId| {
            if let Some(story) = self.leases.get_mut(&id.0) {
                story.ended = true;
            }
        };
        match applied.command {
            Command::LeaseGrant { id, .. } if worked => {
                let story = self.leases.entry(id.0).or_default();
                *story = LeaseStory {
                    grants: story.grants + 1,
                    ended: false,
                    last: index,
                    renewals: story.renewals,
                };
            }
            Command::LeaseRenew(id) => {
                let Some(story) = self.leases.get_mut(&id.0) else { return };
                if worked == story.ended {
                    let text = format!("entry {index}: renewal of {:x} worked: {worked}", id.0);
                    self.wrong.push(text);
                }
                if worked {
                    story.renewals += 1;
                    story.last = index;
                }
            }
            Command::LeaseRevoke(id) | Command::LeaseEndUnused { id, .. } if worked => end(*id),
            Command::LeaseExpire(term, expiries) if *term == applied.at.term => {
                for expiry in expiries {
                    let known = self.leases.get_mut(&expiry.id.0);
                    if let Some(story) = known.filter(|story| story.last == expiry.renewed_at) {
                        story.ended = true;
                    }
                }
            }
            _ => {}
        }
    }
}
