//! A key as the map holds it.
//!
//! A lookup among a million keys compares some twenty of them. Short keys lie inside the map's nodes,
//! so that a comparison follows no pointer, and copying a node while a frozen clone lives does not
//! touch one reference count per key. Long keys share the memory of their first version.

use std::{borrow::Borrow, cmp::Ordering};

use bytes::Bytes;

/// Keys up to this length are stored inline. Chosen so that the whole is 40 bytes: one word more
/// than `Bytes` alone, and enough for `<election>/<lease hex>` with a name of 21 bytes.
const INLINE_MAX: usize = 38;

#[derive(Clone, Debug)]
pub(super) enum Key {
    Inline { length: u8, bytes: [u8; INLINE_MAX] },
    Shared(Bytes),
}

impl Key {
    pub(super) fn new(key: &Bytes) -> Key {
        if key.len() > INLINE_MAX {
            return Key::Shared(key.clone());
        }
        let mut bytes = [0; INLINE_MAX];
        bytes[..key.len()].copy_from_slice(key);
        Key::Inline { length: key.len() as u8, bytes }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Key::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Key::Shared(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn store_key_order_is_that_of_its_bytes(
            a in prop::collection::vec(0u8..3, 0..60),
            b in prop::collection::vec(0u8..3, 0..60),
        ) {
            let (x, y) = (Key::new(&a.clone().into()), Key::new(&b.clone().into()));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(x.as_slice(), &a[..]);
        }
    }

    #[test]
    fn store_key_is_one_word_larger_than_bytes() {
        assert_eq!(size_of::<Key>(), 40);
    }
}
