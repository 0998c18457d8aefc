//! Which keys a request is about: one, a half-open range, or all from a key on.

use bytes::Bytes;

/// A set of adjacent keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Span {
    /// Exactly this key.
    One(Bytes),
    /// All keys at or after this one.
    From(Bytes),
    /// All keys at or after the first and before the second. May be empty.
    Between(Bytes, Bytes),
}

impl Span {
    /// Reads etcd's convention: no end means one key, an end of `\0` means everything from `key` on.
    pub fn from_wire(key: Bytes, range_end: Bytes) -> Span {
        match &range_end[..] {
            [] => Span::One(key),
            [0] => Span::From(key),
            _ => Span::Between(key, range_end),
        }
    }

    /// The pair (key, range_end) that says the same on the wire.
    pub fn to_wire(&self) -> (Bytes, Bytes) {
        match self {
            Span::One(key) => (key.clone(), Bytes::new()),
            Span::From(key) => (key.clone(), Bytes::from_static(b"\0")),
            Span::Between(key, end) => (key.clone(), end.clone()),
        }
    }

    /// All keys that begin with `prefix`; every key, if it is empty.
    pub fn prefix(prefix: Bytes) -> Span {
        match after_prefix(&prefix) {
            Some(end) => Span::Between(prefix, end),
            None => Span::From(prefix),
        }
    }

    /// The first key of the span, present or not.
    pub fn start(&self) -> &Bytes {
        match self {
            Span::One(key) | Span::From(key) | Span::Between(key, _) => key,
        }
    }

    /// Whether `key` is in the span.
    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            Span::One(one) => key == one,
            Span::From(start) => key >= start,
            Span::Between(start, end) => key >= start && key < end,
        }
    }

    /// Whether it may hold more than one key.
    pub fn is_wide(&self) -> bool {
        !matches!(self, Span::One(_))
    }

    /// Whether the span can contain no key at all.
    pub fn is_empty(&self) -> bool {
        matches!(self, Span::Between(start, end) if start >= end)
    }
}

/// The first key after all keys that begin with `prefix`; none if there is no such key.
pub fn after_prefix(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte < 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(after_prefix(b"job/").as_deref(), Some(&b"job0"[..]));
        assert_eq!(after_prefix(b"a\xff\xff").as_deref(), Some(&b"b"[..]));
        assert_eq!(after_prefix(b"\xff"), None);
        assert!(Span::prefix(Bytes::from_static(b"job/")).contains(b"job/1"));
        assert!(!Span::prefix(Bytes::from_static(b"job/")).contains(b"job0"));
    }

    #[test]
    fn the_wire_form_comes_back_the_same() {
        for (key, end) in [(&b"a"[..], &b""[..]), (b"a", b"\0"), (b"a", b"c"), (b"\0", b"\0")] {
            let span = Span::from_wire(Bytes::copy_from_slice(key), Bytes::copy_from_slice(end));
            let (k, e) = span.to_wire();
            assert_eq!((&k[..], &e[..]), (key, end));
        }
    }
}
