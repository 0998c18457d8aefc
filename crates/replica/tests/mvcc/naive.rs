//! The store as a list of every version ever made, searched from one end to the other.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use tenure_api::{
    Compare, CompareResult, CompareTarget, DeleteRange, DeleteRangeResult, Event, EventKind,
    Failure, KeyValue, LeaseId, Op, OpResult, Put, PutResult, Range, RangeResult, Revision,
    SortOrder, SortTarget, Span, Txn, TxnResult, op::PutLease,
};

#[derive(Clone)]
pub struct Naive {
    pub versions: Vec<KeyValue>,
    pub revision: Revision,
    pub compacted: Revision,
}

/// Leases with odd numbers live.
pub fn lives(lease: LeaseId) -> bool {
    lease.0 % 2 == 1
}

impl Naive {
    pub fn new() -> Naive {
        Naive { versions: Vec::new(), revision: Revision(1), compacted: Revision(0) }
    }

    pub fn at(&self, revision: Revision) -> BTreeMap<Bytes, KeyValue> {
        let mut state = BTreeMap::new();
        for version in self.versions.iter().filter(|v| v.mod_revision <= revision) {
            if version.is_tombstone() {
                state.remove(&version.key);
            } else {
                state.insert(version.key.clone(), version.clone());
            }
        }
        state
    }

    /// Versions of a transaction under way count, though the revision has not moved yet.
    fn now(&self) -> BTreeMap<Bytes, KeyValue> {
        self.at(Revision(i64::MAX))
    }

    pub fn range(&self, range: &Range) -> Result<RangeResult, Failure> {
        let state = match range.revision {
            None => self.now(),
            Some(revision) if revision > self.revision => return Err(Failure::FutureRevision),
            Some(revision) if revision < self.compacted => return Err(Failure::Compacted),
            Some(revision) => self.at(revision),
        };
        let mut kvs: Vec<KeyValue> =
            state.into_values().filter(|kv| range.span.contains(&kv.key)).collect();
        let mut answer = RangeResult {
            count: kvs.len() as i64,
            keys_only: range.keys_only,
            ..RangeResult::default()
        };
        if range.count_only {
            return Ok(answer);
        }
        let limit = range.limit.unwrap_or(0);
        let filtered = !(range.mod_revision.is_open() && range.create_revision.is_open());
        if limit > 0 && range.sort_order == SortOrder::None && !filtered {
            kvs.truncate(limit + 1);
        }
        kvs.retain(|kv| range.mod_revision.admits(kv.mod_revision));
        kvs.retain(|kv| range.create_revision.admits(kv.create_revision));
        let descending = range.sort_order == SortOrder::Descend;
        macro_rules! sort {
            ($field:ident) => {
                kvs.sort_by(|a, b| {
                    let order = a.$field.cmp(&b.$field);
                    if descending { order.reverse() } else { order }
                })
            };
        }
        match range.sort_target {
            SortTarget::Key => sort!(key),
            SortTarget::Version => sort!(version),
            SortTarget::Create => sort!(create_revision),
            SortTarget::Mod => sort!(mod_revision),
            SortTarget::Value => sort!(value),
        }
        if limit > 0 && kvs.len() > limit {
            kvs.truncate(limit);
            answer.more = true;
        }
        answer.kvs = kvs.into_iter().map(Arc::new).collect();
        Ok(answer)
    }

    pub fn put(&mut self, put: &Put) -> Result<PutResult, Failure> {
        if matches!(put.lease, PutLease::Set(Some(lease)) if !lives(lease)) {
            return Err(Failure::LeaseNotFound);
        }
        self.check_kept(put)?;
        let result = self.do_put(put);
        self.commit();
        Ok(result)
    }

    pub fn delete_range(&mut self, delete: &DeleteRange) -> DeleteRangeResult {
        let result = self.do_delete(delete);
        self.commit();
        result
    }

    pub fn delete_keys(&mut self, keys: &[Bytes]) {
        for key in keys {
            self.do_delete(&DeleteRange { span: Span::One(key.clone()), prev_kv: false });
        }
        self.commit();
    }

    pub fn compact(&mut self, revision: Revision) -> Result<(), Failure> {
        let nothing = revision.0 == 0 && self.compacted.0 == 0;
        if revision <= self.compacted && !nothing {
            return Err(Failure::Compacted);
        }
        if revision > self.revision {
            return Err(Failure::FutureRevision);
        }
        self.compacted = revision;
        Ok(())
    }

    pub fn txn(&mut self, txn: &Txn) -> Result<TxnResult, Failure> {
        // Comparisons always look at the state before; so keep it and work on a copy.
        let start = self.clone();
        check(&start, txn, true)?;
        check(&start, txn, false)?;
        let result = self.do_txn(&start, txn);
        self.commit();
        Ok(result)
    }

    /// All events at or after a revision: revision, kind, version, version before.
    pub fn changes_since(&self, from: Revision) -> Vec<(Revision, Vec<Event>)> {
        let mut changes: Vec<(Revision, Vec<Event>)> = Vec::new();
        for (at, version) in self.versions.iter().enumerate() {
            let revision = version.mod_revision;
            if revision < from.max(self.compacted) {
                continue;
            }
            let prev = self.versions[..at].iter().rfind(|v| v.key == version.key);
            let prev = prev.filter(|v| !v.is_tombstone() && revision > self.compacted);
            let event = Event {
                kind: if version.is_tombstone() { EventKind::Delete } else { EventKind::Put },
                kv: Arc::new(version.clone()),
                prev: prev.cloned().map(Arc::new),
            };
            match changes.last_mut() {
                Some((last, events)) if *last == revision => events.push(event),
                _ => changes.push((revision, vec![event])),
            }
        }
        changes
    }

    fn commit(&mut self) {
        if let Some(last) = self.versions.last() {
            self.revision = self.revision.max(last.mod_revision);
        }
    }

    fn check_kept(&self, put: &Put) -> Result<(), Failure> {
        let keeps = put.value.is_none() || put.lease == PutLease::Keep;
        if keeps && !self.now().contains_key(&put.key) {
            return Err(Failure::KeyNotFound);
        }
        Ok(())
    }

    fn do_put(&mut self, put: &Put) -> PutResult {
        let prev = self.now().remove(&put.key);
        let at = self.revision.next();
        let mut kv = prev.clone().unwrap_or_else(|| KeyValue {
            create_revision: at,
            ..KeyValue::tombstone(put.key.clone(), at)
        });
        kv.version += 1;
        kv.mod_revision = at;
        if let Some(value) = &put.value {
            kv.value = value.clone();
        }
        if let PutLease::Set(lease) = put.lease {
            kv.lease = lease;
        }
        self.versions.push(kv);
        PutResult { prev: prev.filter(|_| put.prev_kv).map(Arc::new) }
    }

    fn do_delete(&mut self, delete: &DeleteRange) -> DeleteRangeResult {
        let mut result = DeleteRangeResult::default();
        for (key, kv) in self.now() {
            if delete.span.contains(&key) {
                self.versions.push(KeyValue::tombstone(key, self.revision.next()));
                result.deleted += 1;
                if delete.prev_kv {
                    result.prev.push(Arc::new(kv));
                }
            }
        }
        result
    }

    fn do_txn(&mut self, start: &Naive, txn: &Txn) -> TxnResult {
        let succeeded = txn.compare.iter().all(|compare| start.holds(compare));
        let ops = if succeeded { &txn.success } else { &txn.failure };
        let responses = ops
            .iter()
            .map(|op| match op {
                Op::Range(range) => OpResult::Range(self.range(range).unwrap()),
                Op::Put(put) => OpResult::Put(self.do_put(put)),
                Op::DeleteRange(delete) => OpResult::DeleteRange(self.do_delete(delete)),
                Op::Txn(txn) => OpResult::Txn(self.do_txn(start, txn)),
            })
            .collect();
        TxnResult { succeeded, responses }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let found: Vec<KeyValue> =
            self.now().into_values().filter(|kv| compare.span.contains(&kv.key)).collect();
        if found.is_empty() {
            let nothing = KeyValue::tombstone(Bytes::new(), Revision(0));
            return !matches!(compare.target, CompareTarget::Value(_))
                && relates(compare, &nothing);
        }
        found.iter().all(|kv| relates(compare, kv))
    }
}

fn check(start: &Naive, txn: &Txn, puts: bool) -> Result<(), Failure> {
    let succeeded = txn.compare.iter().all(|compare| start.holds(compare));
    for op in if succeeded { &txn.success } else { &txn.failure } {
        match op {
            Op::Txn(txn) => check(start, txn, puts)?,
            Op::Range(range) if !puts => drop(start.range(range)?),
            Op::Put(put) if puts => {
                start.check_kept(put)?;
                if matches!(put.lease, PutLease::Set(Some(lease)) if !lives(lease)) {
                    return Err(Failure::LeaseNotFound);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn relates(compare: &Compare, kv: &KeyValue) -> bool {
    let order = match &compare.target {
        CompareTarget::Version(version) => kv.version.cmp(version),
        CompareTarget::Create(revision) => kv.create_revision.cmp(revision),
        CompareTarget::Mod(revision) => kv.mod_revision.cmp(revision),
        CompareTarget::Value(value) => kv.value.cmp(value),
        CompareTarget::Lease(lease) => kv.lease.map_or(0, |l| l.0).cmp(&lease.map_or(0, |l| l.0)),
    };
    match compare.result {
        CompareResult::Equal => order.is_eq(),
        CompareResult::NotEqual => order.is_ne(),
        CompareResult::Greater => order.is_gt(),
        CompareResult::Less => order.is_lt(),
    }
}
