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

/// A set of keys: spans from a key to another one, which is not in it any more, or to the end of all keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeySet {
    /// The first keys of all spans, one behind the other: what a search looks at lies together, which is worth more than
    /// the search itself where there are thousands.
    starts: Box<[u8]>,
    /// Where each of them ends.
    until: Box<[usize]>,
    /// The other ends of the spans.
    ends: Box<[Option<Bytes>]>,
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
        let mut starts = Vec::new();
        let mut until = Vec::with_capacity(joined.len());
        for (start, _) in &joined {
            starts.extend_from_slice(start);
            until.push(starts.len());
        }
        let ends = joined.into_iter().map(|(_, end)| end).collect();
        KeySet { starts: starts.into(), until: until.into(), ends }
    }

    fn start(&self, span: usize) -> &[u8] {
        let from = span.checked_sub(1).map_or(0, |before| self.until[before]);
        &self.starts[from..self.until[span]]
    }

    /// The end of the span of the set that this key is in.
    fn around(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        let (mut behind, mut not_behind) = (0, self.ends.len());
        while behind < not_behind {
            let middle = behind.midpoint(not_behind);
            if self.start(middle) <= key {
                behind = middle + 1;
            } else {
                not_behind = middle;
            }
        }
        let end = &self.ends[behind.checked_sub(1)?];
        end.as_ref().is_none_or(|end| key < &end[..]).then_some(end)
    }

    /// Whether a span lies wholly inside. One that ends before it begins does not.
    pub(super) fn covers(&self, span: &Span) -> bool {
        let Some(end) = self.around(span.start()) else { return false };
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
                Some(None) => return true,
                Some(Some(end)) => next = keys.range(end.clone()..).next(),
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
