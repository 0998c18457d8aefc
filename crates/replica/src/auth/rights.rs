//! Sets of keys, as sorted spans that do not touch.

use bytes::Bytes;
use imbl::OrdSet;
use tenure_api::Span;

use super::Permission;

/// What a user may do.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// Everything.
    pub(super) is_root: bool,
    pub(super) read: KeySet,
    pub(super) write: KeySet,
    /// Elections under these keys may be ruled.
    pub(super) rule: KeySet,
}

impl Rights {
    /// All these permissions together.
    pub(super) fn of(is_root: bool, permissions: impl Iterator<Item = Permission>) -> Rights {
        let (mut read, mut write, mut rule) = (vec![], vec![], vec![]);
        // Those that came in by other ways than a grant may hold no key.
        for permission in permissions.filter(Permission::is_grantable) {
            let span = permission.span();
            if permission.kind.reads() {
                read.push(span.clone());
            }
            if permission.kind.writes() {
                write.push(span.clone());
            }
            if permission.kind.rules() {
                rule.push(span);
            }
        }
        let [read, write, rule] = [read, write, rule].map(KeySet::of);
        Rights { is_root, read, write, rule }
    }
}

/// A set of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeySet {
    /// From a key to another one, which is not in it any more; without one, to the end of all keys.
    spans: Vec<(Bytes, Option<Bytes>)>,
}

impl KeySet {
    /// The union of these. Spans that touch become one: [m,n) and [n,o) allow [m,o).
    pub(super) fn of(spans: Vec<Span>) -> KeySet {
        let mut bounds: Vec<(Bytes, Option<Bytes>)> =
            spans.into_iter().filter(|span| !span.is_empty()).map(bounds).collect();
        bounds.sort();
        let mut joined: Vec<(Bytes, Option<Bytes>)> = Vec::with_capacity(bounds.len());
        for (start, end) in bounds {
            match joined.last_mut() {
                Some((_, None)) => {}
                Some((_, Some(last))) if start <= *last => {
                    *last = match end {
                        Some(end) => end.max(last.clone()),
                        None => {
                            if let Some(open) = joined.last_mut() {
                                open.1 = None;
                            }
                            continue;
                        }
                    }
                }
                _ => joined.push((start, end)),
            }
        }
        KeySet { spans: joined }
    }

    /// The span of the set that this key is in.
    fn around(&self, key: &[u8]) -> Option<&(Bytes, Option<Bytes>)> {
        let behind = self.spans.partition_point(|(start, _)| &start[..] <= key);
        let around = self.spans.get(behind.checked_sub(1)?)?;
        around.1.as_ref().is_none_or(|end| key < &end[..]).then_some(around)
    }

    /// Whether a span lies wholly inside. One that ends before it begins does not.
    pub(super) fn covers(&self, span: &Span) -> bool {
        let Some((_, end)) = self.around(span.start()) else { return false };
        match (span, end) {
            (Span::One(_), _) => true,
            (Span::From(_), end) => end.is_none(),
            (Span::Between(..), _) if span.is_empty() => false,
            (Span::Between(..), None) => true,
            (Span::Between(_, wanted), Some(end)) => wanted <= end,
        }
    }

    /// Whether all these keys are in the set. It looks once at each span that holds some of them, not at every key.
    pub(super) fn holds_all(&self, keys: &OrdSet<Bytes>) -> bool {
        let mut next = keys.get_min();
        while let Some(key) = next {
            match self.around(key) {
                None => return false,
                Some((_, None)) => return true,
                Some((_, Some(end))) => next = keys.range(end.clone()..).next(),
            }
        }
        true
    }
}

fn bounds(span: Span) -> (Bytes, Option<Bytes>) {
    match span {
        Span::One(key) => {
            let end = Bytes::from([&key[..], b"\0"].concat());
            (key, Some(end))
        }
        Span::From(start) => (start, None),
        Span::Between(start, end) => (start, Some(end)),
    }
}
