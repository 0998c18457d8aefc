//! What a role may do with a span of keys, or with elections.

use bytes::Bytes;
use tenure_api::{Span, span::after_prefix};

/// One permission of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// What.
    pub kind: PermissionKind,
    /// The first key.
    pub key: Bytes,
    /// Where it ends, as etcd writes it: empty for one key, `\0` for all from there on.
    pub range_end: Bytes,
}

/// What is permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionKind {
    /// Reading keys.
    Read,
    /// Writing keys.
    Write,
    /// Both, and with it everything in the elections under these keys.
    ReadWrite,
    /// Seeing elections. To etcd's clients it is reading their keys.
    Observe,
    /// Contending in elections. To etcd's clients it is reading and writing their keys.
    Campaign,
    /// That, and deciding about others: transfer, evict, freeze, resume.
    Rule,
    /// A kind that is not known here. It is kept, and permits nothing.
    Other(i32),
}

impl PermissionKind {
    /// The kind of this number on the wire.
    pub fn from_number(number: i32) -> PermissionKind {
        match number {
            0 => PermissionKind::Read,
            1 => PermissionKind::Write,
            2 => PermissionKind::ReadWrite,
            16 => PermissionKind::Observe,
            17 => PermissionKind::Campaign,
            18 => PermissionKind::Rule,
            other => PermissionKind::Other(other),
        }
    }

    /// Its number on the wire.
    pub fn number(self) -> i32 {
        match self {
            PermissionKind::Read => 0,
            PermissionKind::Write => 1,
            PermissionKind::ReadWrite => 2,
            PermissionKind::Observe => 16,
            PermissionKind::Campaign => 17,
            PermissionKind::Rule => 18,
            PermissionKind::Other(other) => other,
        }
    }

    pub(super) fn reads(self) -> bool {
        !matches!(self, PermissionKind::Write | PermissionKind::Other(_))
    }

    pub(super) fn writes(self) -> bool {
        use PermissionKind::{Campaign, ReadWrite, Rule, Write};
        matches!(self, Write | ReadWrite | Campaign | Rule)
    }

    pub(super) fn rules(self) -> bool {
        matches!(self, PermissionKind::ReadWrite | PermissionKind::Rule)
    }

    fn is_about_elections(self) -> bool {
        use PermissionKind::{Campaign, Observe, Rule};
        matches!(self, Observe | Campaign | Rule)
    }
}

impl Permission {
    /// Whether a role can have it: the span holds a key.
    pub(super) fn is_grantable(&self) -> bool {
        let end = &self.range_end[..];
        !self.key.is_empty() && (end.is_empty() || end == b"\0" || end > &self.key[..])
    }

    /// The keys it is about. For one election that is all below its name.
    pub(super) fn span(&self) -> Span {
        if self.kind.is_about_elections() && self.range_end.is_empty() {
            return keys_of(&self.key);
        }
        Span::from_wire(self.key.clone(), self.range_end.clone())
    }
}

/// The keys of an election: its candidates, and the mark that freezes it.
pub(crate) fn keys_of(election: &[u8]) -> Span {
    let start = Bytes::from([election, b"/"].concat());
    let end = after_prefix(&start).expect("it ends with a slash");
    Span::Between(start, end)
}
