//! A key with its value and history numbers, and what happens to it.

use bytes::Bytes;

use crate::{LeaseId, Revision};

/// One version of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// The value; empty for a deletion.
    pub value: Bytes,
    /// The revision that created the key: for the key of a holder, its fencing token.
    pub create_revision: Revision,
    /// The revision of this version.
    pub mod_revision: Revision,
    /// 1 when created, one more with each put; 0 for a deletion.
    pub version: i64,
    /// The lease that the key dies with.
    pub lease: Option<LeaseId>,
}

impl KeyValue {
    /// The mark a deletion leaves: key and revision only, as etcd sends it.
    pub fn tombstone(key: Bytes, at: Revision) -> KeyValue {
        KeyValue {
            key,
            value: Bytes::new(),
            create_revision: Revision(0),
            mod_revision: at,
            version: 0,
            lease: None,
        }
    }

    /// Whether this version says that the key is gone.
    pub fn is_tombstone(&self) -> bool {
        self.version == 0
    }
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Created or overwritten.
    Put,
    /// Deleted, by a client or with its lease.
    Delete,
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Put or delete.
    pub kind: EventKind,
    /// The version the change made; a tombstone for a delete.
    pub kv: std::sync::Arc<KeyValue>,
    /// The version before, if the key existed and is not compacted.
    pub prev: Option<std::sync::Arc<KeyValue>>,
}
