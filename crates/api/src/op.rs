//! Operations on keys and what they answer.

use std::sync::Arc;

use bytes::Bytes;

use crate::{KeyValue, LeaseId, Revision, Span};

/// Read the keys of a span, now or at an earlier revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Which keys.
    pub span: Span,
    /// At most so many; the count in the answer ignores it.
    pub limit: Option<usize>,
    /// At this revision instead of the newest.
    pub revision: Option<Revision>,
    /// In which order.
    pub sort_order: SortOrder,
    /// By which field.
    pub sort_target: SortTarget,
    /// Leave the values out.
    pub keys_only: bool,
    /// Leave the keys out too.
    pub count_only: bool,
    /// Drop keys last changed before or after these revisions.
    pub mod_revision: Window,
    /// Drop keys created before or after these revisions.
    pub create_revision: Window,
}

/// Bounds on a revision, both inclusive; absent means unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Not before.
    pub min: Option<Revision>,
    /// Not after.
    pub max: Option<Revision>,
}

impl Window {
    /// Whether a revision lies inside.
    pub fn admits(&self, revision: Revision) -> bool {
        self.min.is_none_or(|min| revision >= min) && self.max.is_none_or(|max| revision <= max)
    }

    /// Whether it admits everything.
    pub fn is_open(&self) -> bool {
        self.min.is_none() && self.max.is_none()
    }
}

impl Range {
    /// Everything in the span, newest version, in key order.
    pub fn all(span: Span) -> Range {
        Range {
            span,
            limit: None,
            revision: None,
            sort_order: SortOrder::None,
            sort_target: SortTarget::Key,
            keys_only: false,
            count_only: false,
            mod_revision: Window::default(),
            create_revision: Window::default(),
        }
    }
}

/// Order of a range's answer. `None` is key order, but for a target other than the key it means
/// ascending, as in etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SortOrder {
    None,
    Ascend,
    Descend,
}

/// The field to order by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SortTarget {
    Key,
    Version,
    Create,
    Mod,
    Value,
}

/// What a range found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeResult {
    /// The versions found, after limit and filters.
    pub kvs: Vec<Arc<KeyValue>>,
    /// Whether the limit cut some off.
    pub more: bool,
    /// How many keys the span holds, whatever limit and filters say.
    pub count: i64,
    /// Values were not asked for: leave them out when writing the answer.
    pub keys_only: bool,
}

/// Write one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The key.
    pub key: Bytes,
    /// The value, or `None` to keep the present one (the key must exist).
    pub value: Option<Bytes>,
    /// What to do about the lease.
    pub lease: PutLease,
    /// Answer with the version before.
    pub prev_kv: bool,
}

/// What a put does about the key's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutLease {
    /// Attach to this lease, which must exist, or to none.
    Set(Option<LeaseId>),
    /// Keep the present one (the key must exist).
    Keep,
}

/// What a put answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutResult {
    /// The version before, if asked for and present.
    pub prev: Option<Arc<KeyValue>>,
}

/// Delete the keys of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRange {
    /// Which keys.
    pub span: Span,
    /// Answer with the versions before.
    pub prev_kv: bool,
}

/// What a deletion answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteRangeResult {
    /// How many keys were there.
    pub deleted: i64,
    /// Their last versions, if asked for.
    pub prev: Vec<Arc<KeyValue>>,
}

/// If all comparisons hold do one list of operations, else the other; all at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// All must hold; none at all holds.
    pub compare: Vec<Compare>,
    /// Done when they hold.
    pub success: Vec<Op>,
    /// Done when they do not.
    pub failure: Vec<Op>,
}

impl Txn {
    /// Whether no branch, however deep, can write.
    pub fn is_read_only(&self) -> bool {
        self.success.iter().chain(&self.failure).all(|op| match op {
            Op::Range(_) => true,
            Op::Txn(txn) => txn.is_read_only(),
            Op::Put(_) | Op::DeleteRange(_) => false,
        })
    }

    /// Whether any comparison or step, however deep, may look at more than one key.
    pub fn is_wide(&self) -> bool {
        let step = |op: &Op| match op {
            Op::Range(range) => range.span.is_wide(),
            Op::DeleteRange(delete) => delete.span.is_wide(),
            Op::Put(_) => false,
            Op::Txn(txn) => txn.is_wide(),
        };
        self.compare.iter().any(|compare| compare.span.is_wide())
            || self.success.iter().chain(&self.failure).any(step)
    }
}

/// A condition on every key of a span. Where the span holds no key, it is judged once against a key
/// with version, create and mod revision 0 and no lease; a condition on the value then fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// Which keys.
    pub span: Span,
    /// How the key's field must relate to the operand.
    pub result: CompareResult,
    /// The field and the operand.
    pub target: CompareTarget,
}

/// The relation a comparison asks for: field *relation* operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CompareResult {
    Equal,
    Greater,
    Less,
    NotEqual,
}

/// The field compared and what with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CompareTarget {
    Version(i64),
    Create(Revision),
    Mod(Revision),
    Value(Bytes),
    Lease(Option<LeaseId>),
}

/// One step of a transaction's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Range(Range),
    Put(Put),
    DeleteRange(DeleteRange),
    Txn(Txn),
}

/// What one step answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OpResult {
    Range(RangeResult),
    Put(PutResult),
    DeleteRange(DeleteRangeResult),
    Txn(TxnResult),
}

/// What a transaction answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnResult {
    /// Whether the comparisons held.
    pub succeeded: bool,
    /// One for each operation of the branch taken.
    pub responses: Vec<OpResult>,
}
