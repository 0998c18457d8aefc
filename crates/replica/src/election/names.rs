//! Names and the keys under them.

use bytes::Bytes;
use imbl::OrdMap;
use tenure_api::LeaseId;

use super::{NAME_BYTES_MAX, Refusal};

/// The last part of the key that comes before all candidates of a frozen name.
pub const FROZEN: &[u8] = b"!frozen";

/// The key of a lease's candidate under a name: etcd's layout.
pub fn key_of(name: &[u8], lease: LeaseId) -> Bytes {
    let mut key = Vec::with_capacity(name.len() + 17);
    key.extend_from_slice(name);
    key.extend_from_slice(format!("/{:x}", lease.0).as_bytes());
    key.into()
}

/// The key that keeps all candidates from leading under a name.
pub fn frozen_key(name: &[u8]) -> Bytes {
    [name, b"/", FROZEN].concat().into()
}

/// The name whose election a key belongs to, if it is the candidate of its lease or the mark of a frozen name.
/// Other keys count, too, once there is an election above them.
pub fn name_of(key: &Bytes, lease: Option<LeaseId>) -> Option<Bytes> {
    let slash = key.iter().rposition(|byte| *byte == b'/')?;
    let last = &key[slash + 1..];
    let is_candidate = |lease: LeaseId| is_hex_of(last, lease);
    (last == FROZEN || lease.is_some_and(is_candidate)).then(|| key.slice(..slash))
}

fn is_hex_of(text: &[u8], lease: LeaseId) -> bool {
    let mut number = lease.0 as u64;
    let digits = text.iter().rev().all(|byte| {
        let digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
        *byte == digit
    });
    digits && number == 0 && !text.is_empty() && (text[0] != b'0' || text.len() == 1)
}

/// The names of a map that a key lies under, shortest first.
///
/// Not by trying each part of the key: a key of a million slashes has a million. Each step goes from the longest name that is
/// still possible to the one before it in the map, and from there to what that has in common with the key, so there are
/// no more steps than names beside or above the key.
pub fn names_above<'k, V>(names: &OrdMap<Bytes, V>, key: &'k [u8]) -> Vec<&'k [u8]> {
    let mut above = Vec::new();
    let mut possible = key.len();
    // The longest part of the key that could be a name.
    while let Some(end) = key[..possible].iter().rposition(|byte| *byte == b'/') {
        let Some((name, _)) = names.get_prev(&key[..end]) else { break };
        let common = name.iter().zip(&key[..end]).take_while(|(a, b)| a == b).count();
        if common == name.len() && key[common] == b'/' {
            above.push(&key[..common]);
            possible = common;
        } else {
            // A name of that length may be there; `key[common]` is then the slash after it.
            possible = common + 1;
        }
    }
    above.reverse();
    above
}

/// Names that are joined through a session have no empty part: `a//b` and `a/` would lie under `a/`
/// and `a` by accident. They may begin with a slash, as those of many stock clients do.
pub fn check(name: &[u8]) -> Result<(), Refusal> {
    let below_root = name.strip_prefix(b"/").unwrap_or(name);
    let empty_part = below_root.split(|byte| *byte == b'/').any(<[u8]>::is_empty);
    let last = name.rsplit(|byte| *byte == b'/').next();
    if empty_part || name.len() > NAME_BYTES_MAX || last == Some(FROZEN) {
        return Err(Refusal::BadName);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(key: &'static str, lease: i64) -> Option<Bytes> {
        name_of(&Bytes::from_static(key.as_bytes()), LeaseId::from_wire(lease))
    }

    #[test]
    fn election_key_names_the_lease_of_its_candidate() {
        let lease = LeaseId(0x694d_71dd_af1b_6e12);
        let key = key_of(b"jobs/nightly", lease);
        assert_eq!(&key[..], b"jobs/nightly/694d71ddaf1b6e12");
        assert_eq!(name_of(&key, Some(lease)).as_deref(), Some(&b"jobs/nightly"[..]));
        assert_eq!(name_of(&key, Some(LeaseId(lease.0 + 1))), None);
        assert_eq!(name_of(&key, None), None);
    }

    #[test]
    fn election_key_with_another_form_of_the_number_is_none() {
        assert_eq!(name("a/1f", 0x1f).as_deref(), Some(&b"a"[..]));
        assert_eq!(name("a/01f", 0x1f), None);
        assert_eq!(name("a/1F", 0x1f), None);
        assert_eq!(name("a/11f", 0x1f), None);
        assert_eq!(name("a/", 0x1f), None);
        assert_eq!(name("1f", 0x1f), None);
        assert_eq!(name("a/b/!frozen", 0).as_deref(), Some(&b"a/b"[..]));
    }

    #[test]
    fn election_key_lies_under_each_of_its_parts() {
        let names: OrdMap<Bytes, ()> = ["", "/a", "/a.x", "/a/b", "/a/bb", "/b", "/a/b/c"]
            .map(|name| (Bytes::from_static(name.as_bytes()), ()))
            .into_iter()
            .collect();
        let above = |key: &'static str| names_above(&names, key.as_bytes());
        assert_eq!(above("/a/b/c"), [&b""[..], b"/a", b"/a/b"]);
        assert_eq!(above("/a/x"), [&b""[..], b"/a"]);
        assert_eq!(above("/c/b/c"), [&b""[..]]);
        assert_eq!(above("a/b"), Vec::<&[u8]>::new());
    }

    proptest! {
        #[test]
        fn election_names_above_a_key_are_those_of_its_parts(
            names in proptest::collection::btree_set("[a./]{0,6}", 0..20), key in "[a./]{0,8}",
        ) {
            let names: OrdMap<Bytes, ()> =
                names.into_iter().map(|name| (Bytes::from(name), ())).collect();
            let key = key.as_bytes();
            let parts = (0..key.len()).filter(|at| key[*at] == b'/').map(|at| &key[..at]);
            let expected: Vec<&[u8]> = parts.filter(|part| names.contains_key(*part)).collect();
            prop_assert_eq!(names_above(&names, key), expected);
        }
    }

    #[test]
    fn election_name_that_is_odd_is_refused() {
        for bad in ["", "/", "//a", "a/", "a//b", "a/!frozen"] {
            assert_eq!(check(bad.as_bytes()), Err(Refusal::BadName), "{bad:?}");
        }
        for good in ["jobs/nightly", "/registry/jobs"] {
            assert_eq!(check(good.as_bytes()), Ok(()));
        }
        assert_eq!(check(&[b'x'; NAME_BYTES_MAX + 1]), Err(Refusal::BadName));
    }
}
