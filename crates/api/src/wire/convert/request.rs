//! Single operations on keys, as requests.

use bytes::Bytes;

use crate::op::{DeleteRange, Put, PutLease, Range, SortOrder, SortTarget, Window};
use crate::wire::etcdserverpb as pb;
use crate::wire::etcdserverpb::range_request as wire;
use crate::{Failure, LeaseId, Revision, Span};

/// Reads a range, and whether a member may answer it from what it has (serializable).
///
/// # Errors
/// [`Failure::EmptyKey`], [`Failure::InvalidSortOption`].
pub fn range(request: pb::RangeRequest) -> Result<(Range, bool), Failure> {
    let serializable = request.serializable;
    let sort_order = match wire::SortOrder::try_from(request.sort_order) {
        Ok(wire::SortOrder::None) => SortOrder::None,
        Ok(wire::SortOrder::Ascend) => SortOrder::Ascend,
        Ok(wire::SortOrder::Descend) => SortOrder::Descend,
        Err(_) => return Err(Failure::InvalidSortOption),
    };
    let sort_target = match wire::SortTarget::try_from(request.sort_target) {
        Ok(wire::SortTarget::Key) => SortTarget::Key,
        Ok(wire::SortTarget::Version) => SortTarget::Version,
        Ok(wire::SortTarget::Create) => SortTarget::Create,
        Ok(wire::SortTarget::Mod) => SortTarget::Mod,
        Ok(wire::SortTarget::Value) => SortTarget::Value,
        Err(_) => return Err(Failure::InvalidSortOption),
    };
    let range = Range {
        span: span(request.key, request.range_end)?,
        limit: positive(request.limit).map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        revision: positive(request.revision).map(Revision),
        sort_order,
        sort_target,
        keys_only: request.keys_only,
        count_only: request.count_only,
        mod_revision: window(request.min_mod_revision, request.max_mod_revision),
        create_revision: window(request.min_create_revision, request.max_create_revision),
    };
    Ok((range, serializable))
}

/// The request that asks for a range.
pub fn range_request(range: Range, serializable: bool) -> pb::RangeRequest {
    let (key, range_end) = range.span.to_wire();
    let sort_order = match range.sort_order {
        SortOrder::None => wire::SortOrder::None,
        SortOrder::Ascend => wire::SortOrder::Ascend,
        SortOrder::Descend => wire::SortOrder::Descend,
    };
    let sort_target = match range.sort_target {
        SortTarget::Key => wire::SortTarget::Key,
        SortTarget::Version => wire::SortTarget::Version,
        SortTarget::Create => wire::SortTarget::Create,
        SortTarget::Mod => wire::SortTarget::Mod,
        SortTarget::Value => wire::SortTarget::Value,
    };
    pb::RangeRequest {
        key,
        range_end,
        limit: range.limit.map_or(0, |limit| i64::try_from(limit).unwrap_or(i64::MAX)),
        revision: unbounded_as_zero(range.revision),
        sort_order: sort_order.into(),
        sort_target: sort_target.into(),
        serializable,
        keys_only: range.keys_only,
        count_only: range.count_only,
        min_mod_revision: unbounded_as_zero(range.mod_revision.min),
        max_mod_revision: unbounded_as_zero(range.mod_revision.max),
        min_create_revision: unbounded_as_zero(range.create_revision.min),
        max_create_revision: unbounded_as_zero(range.create_revision.max),
    }
}

/// Reads a put.
///
/// # Errors
/// [`Failure::EmptyKey`], [`Failure::ValueProvided`], [`Failure::LeaseProvided`].
pub fn put(request: pb::PutRequest) -> Result<Put, Failure> {
    if request.key.is_empty() {
        return Err(Failure::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(Failure::ValueProvided);
    }
    if request.ignore_lease && request.lease != LeaseId::WIRE_NONE {
        return Err(Failure::LeaseProvided);
    }
    let lease = if request.ignore_lease {
        PutLease::Keep
    } else {
        PutLease::Set(LeaseId::from_wire(request.lease))
    };
    Ok(Put {
        key: request.key,
        value: (!request.ignore_value).then_some(request.value),
        lease,
        prev_kv: request.prev_kv,
    })
}

impl From<Put> for pb::PutRequest {
    fn from(put: Put) -> Self {
        let (lease, ignore_lease) = match put.lease {
            PutLease::Set(lease) => (LeaseId::to_wire(lease), false),
            PutLease::Keep => (LeaseId::WIRE_NONE, true),
        };
        pb::PutRequest {
            key: put.key,
            ignore_value: put.value.is_none(),
            value: put.value.unwrap_or_default(),
            lease,
            prev_kv: put.prev_kv,
            ignore_lease,
        }
    }
}

/// Reads a deletion.
///
/// # Errors
/// [`Failure::EmptyKey`].
pub fn delete_range(request: pb::DeleteRangeRequest) -> Result<DeleteRange, Failure> {
    Ok(DeleteRange { span: span(request.key, request.range_end)?, prev_kv: request.prev_kv })
}

impl From<DeleteRange> for pb::DeleteRangeRequest {
    fn from(delete: DeleteRange) -> Self {
        let (key, range_end) = delete.span.to_wire();
        pb::DeleteRangeRequest { key, range_end, prev_kv: delete.prev_kv }
    }
}

pub(super) fn span(key: Bytes, range_end: Bytes) -> Result<Span, Failure> {
    if key.is_empty() {
        return Err(Failure::EmptyKey);
    }
    Ok(Span::from_wire(key, range_end))
}

/// etcd reads a limit or a revision of zero or less as "not given".
fn positive(number: i64) -> Option<i64> {
    (number > 0).then_some(number)
}

/// A bound on revisions is absent only at zero: a negative upper bound leaves nothing, as in etcd.
fn window(min: i64, max: i64) -> Window {
    let bound = |revision| (revision != 0).then_some(Revision(revision));
    Window { min: bound(min), max: bound(max) }
}

fn unbounded_as_zero(revision: Option<Revision>) -> i64 {
    revision.map_or(0, |revision| revision.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn a_request_without_a_key_is_refused() {
        assert_eq!(range(pb::RangeRequest::default()), Err(Failure::EmptyKey));
        assert_eq!(put(pb::PutRequest::default()), Err(Failure::EmptyKey));
        assert_eq!(delete_range(pb::DeleteRangeRequest::default()), Err(Failure::EmptyKey));
    }

    #[test]
    fn an_unknown_sort_is_refused() {
        let request = |sort_order, sort_target| pb::RangeRequest {
            key: bytes("a"),
            sort_order,
            sort_target,
            ..Default::default()
        };
        assert_eq!(range(request(3, 0)), Err(Failure::InvalidSortOption));
        assert_eq!(range(request(0, 5)), Err(Failure::InvalidSortOption));
        assert!(range(request(2, 4)).is_ok());
    }

    #[test]
    fn numbers_below_one_mean_not_given_except_as_bounds() {
        let request = pb::RangeRequest {
            key: bytes("a"),
            limit: -1,
            revision: -7,
            max_mod_revision: -1,
            ..Default::default()
        };
        let (range, serializable) = range(request).unwrap();
        assert!(!serializable);
        assert_eq!((range.limit, range.revision), (None, None));
        assert_eq!(range.mod_revision, Window { min: None, max: Some(Revision(-1)) });
    }

    #[test]
    fn what_is_to_be_kept_must_not_be_given() {
        let ignoring = pb::PutRequest {
            key: bytes("a"),
            ignore_value: true,
            ignore_lease: true,
            ..Default::default()
        };
        let valued = pb::PutRequest { value: bytes("v"), ..ignoring.clone() };
        let leased = pb::PutRequest { lease: 7, ..ignoring.clone() };
        assert_eq!(put(valued), Err(Failure::ValueProvided));
        assert_eq!(put(leased), Err(Failure::LeaseProvided));
        let kept = put(ignoring).unwrap();
        assert_eq!((kept.value, kept.lease), (None, PutLease::Keep));
    }
}
