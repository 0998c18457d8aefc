//! Reading spans of keys, now and in the past, as etcd's `Range` does it.

use std::{cmp::Ordering, ops::Bound, sync::Arc};

use tenure_api::{Failure, KeyValue, Range, RangeResult, Revision, SortOrder, SortTarget, Span};

use super::{Store, history::History};

impl Store {
    /// Reads a span.
    pub fn range(&self, range: &Range) -> Result<RangeResult, Failure> {
        self.check_revision(range)?;
        let keys_only = range.keys_only;
        if range.count_only {
            let count = self.count(range);
            return Ok(RangeResult { kvs: Vec::new(), more: false, count, keys_only });
        }
        let limit = range.limit.filter(|limit| *limit > 0);
        // One more than asked for shows whether there is more. With an order or a filter all must be
        // seen first. An order of `None` by another field than the key sorts only what the limit
        // let through; that is etcd's behaviour, odd as it is.
        let whole = whole_is_seen(range);
        let fetch = limit.filter(|_| !whole).map_or(usize::MAX, |limit| limit.saturating_add(1));

        let (mut kvs, count) = self.fetch(range, fetch);
        if is_filtered(range) {
            kvs.retain(|kv| passes(range, kv));
        }
        sort(&mut kvs, range.sort_order, range.sort_target);
        let more = limit.is_some_and(|limit| kvs.len() > limit);
        if let Some(limit) = limit {
            kvs.truncate(limit);
        }
        Ok(RangeResult { kvs, more, count, keys_only })
    }

    /// Whether the revision asked for can be read; also asked of each read of a transaction before
    /// its first write.
    pub(super) fn check_revision(&self, range: &Range) -> Result<(), Failure> {
        match range.revision {
            Some(revision) if revision > self.revision => Err(Failure::FutureRevision),
            Some(revision) if revision < self.compacted => Err(Failure::Compacted),
            _ => Ok(()),
        }
    }

    /// The live keys of a span, in order.
    pub fn live_in(&self, span: &Span) -> impl Iterator<Item = &Arc<KeyValue>> {
        self.histories(span).filter_map(History::live)
    }

    /// The first versions of the span, and how many keys it holds.
    fn fetch(&self, range: &Range, most: usize) -> (Vec<Arc<KeyValue>>, i64) {
        let mut found = self.versions(&range.span, range.revision);
        let kvs: Vec<_> = found.by_ref().take(most).cloned().collect();
        let count = if is_everything(&range.span) && range.revision.is_none() {
            self.live as i64
        } else {
            (kvs.len() + found.count()) as i64
        };
        (kvs, count)
    }

    fn count(&self, range: &Range) -> i64 {
        if is_everything(&range.span) && range.revision.is_none() {
            return self.live as i64;
        }
        self.versions(&range.span, range.revision).count() as i64
    }

    pub(super) fn versions(
        &self,
        span: &Span,
        revision: Option<Revision>,
    ) -> impl Iterator<Item = &Arc<KeyValue>> {
        self.histories(span).filter_map(move |history| match revision {
            None => history.live(),
            Some(revision) => history.live_at(revision),
        })
    }

    fn histories(&self, span: &Span) -> impl Iterator<Item = &History> {
        let bounds = match span {
            // A single key is looked up: positioning an iterator costs several times as much.
            Span::One(_) => None,
            Span::From(start) => Some((Bound::Included(&start[..]), Bound::Unbounded)),
            Span::Between(start, end) => (!span.is_empty())
                .then_some((Bound::Included(&start[..]), Bound::Excluded(&end[..]))),
        };
        let one = match span {
            Span::One(key) => self.keys.get(&key[..]),
            _ => None,
        };
        let many = bounds.map(|bounds| self.keys.range::<_, [u8]>(bounds));
        one.into_iter().chain(many.into_iter().flatten().map(|(_, history)| history))
    }
}

/// No key sorts before `\0`, so this span needs no counting.
fn is_everything(span: &Span) -> bool {
    matches!(span, Span::From(start) if matches!(&start[..], [] | [0]))
}

/// Whether all of the span must be seen before it is known which keys the limit leaves.
pub(super) fn whole_is_seen(range: &Range) -> bool {
    range.sort_order != SortOrder::None || is_filtered(range)
}

fn is_filtered(range: &Range) -> bool {
    !range.mod_revision.is_open() || !range.create_revision.is_open()
}

fn passes(range: &Range, kv: &KeyValue) -> bool {
    range.mod_revision.admits(kv.mod_revision) && range.create_revision.admits(kv.create_revision)
}

/// Equal fields stay in key order, whichever way the rest goes, so that every member answers alike.
fn sort(kvs: &mut [Arc<KeyValue>], order: SortOrder, target: SortTarget) {
    let by: fn(&KeyValue, &KeyValue) -> Ordering = match target {
        SortTarget::Key => |a, b| a.key.cmp(&b.key),
        SortTarget::Version => |a, b| a.version.cmp(&b.version),
        SortTarget::Create => |a, b| a.create_revision.cmp(&b.create_revision),
        SortTarget::Mod => |a, b| a.mod_revision.cmp(&b.mod_revision),
        SortTarget::Value => |a, b| a.value.cmp(&b.value),
    };
    match (order, target) {
        (SortOrder::None | SortOrder::Ascend, SortTarget::Key) => {}
        (SortOrder::Descend, SortTarget::Key) => kvs.reverse(),
        (SortOrder::None | SortOrder::Ascend, _) => kvs.sort_by(|a, b| by(a, b)),
        (SortOrder::Descend, _) => kvs.sort_by(|a, b| by(b, a)),
    }
}
