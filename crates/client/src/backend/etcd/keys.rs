//! Which key belongs to which candidate.

use bytes::Bytes;
use tenure_api::{LeaseId, Span};

use crate::ElectionName;
use crate::backend::Mode;

const SHARED: &str = ".shared";
const PERMIT: &str = ".permit.";

/// The prefix of all keys of an election.
pub(super) fn prefix(name: &ElectionName) -> Bytes {
    format!("{name}/").into()
}

/// All keys of an election, as a request names them.
pub(super) fn span(name: &ElectionName) -> (Bytes, Bytes) {
    Span::prefix(prefix(name)).to_wire()
}

/// A key of an election.
#[derive(Debug)]
pub(super) struct Key;

impl Key {
    /// The key of a session's candidacy.
    pub(super) fn of(name: &ElectionName, lease: LeaseId, mode: Mode) -> Bytes {
        match mode {
            Mode::Exclusive => format!("{name}/{lease}"),
            Mode::Shared => format!("{name}/{lease}{SHARED}"),
            Mode::Permit(of) => format!("{name}/{lease}{PERMIT}{of}"),
        }
        .into()
    }

    /// The mode that a key says. What is not understood is exclusive: waited for by all.
    pub(super) fn mode(prefix: &[u8], key: &[u8]) -> Mode {
        let candidate =
            key.strip_prefix(prefix).and_then(|candidate| std::str::from_utf8(candidate).ok());
        let Some((lease, mark)) =
            candidate.and_then(|candidate| candidate.split_at_checked(candidate.find('.')?))
        else {
            return Mode::Exclusive;
        };
        if lease.is_empty() || !lease.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Mode::Exclusive;
        }
        let permits = mark.strip_prefix(PERMIT).and_then(|of| of.parse().ok());
        match permits {
            _ if mark == SHARED => Mode::Shared,
            Some(of) if of > 0 => Mode::Permit(of),
            _ => Mode::Exclusive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_key_says_its_mode_again() {
        let name: ElectionName = "job/1".parse().unwrap();
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Permit(3)] {
            let key = Key::of(&name, LeaseId(0x694d_77aa), mode);
            assert!(key.starts_with(b"job/1/694d77aa"));
            assert_eq!(Key::mode(&prefix(&name), &key), mode);
        }
    }

    #[test]
    fn etcd_key_that_is_not_understood_is_exclusive() {
        for key in [
            "job/",
            "job/x.shared",
            "job/.shared",
            "job/1.permit.0",
            "job/1.permit.",
            "job/1.else",
            "job/1/2.shared",
            "other/1.shared",
            "job/1.permit.99999999999",
        ] {
            assert_eq!(Key::mode(b"job/", key.as_bytes()), Mode::Exclusive, "{key}");
        }
        assert_eq!(Key::mode(b"job/", b"job/\xff.shared"), Mode::Exclusive);
    }

    /// Any client can write such keys.
    #[test]
    fn etcd_key_that_is_damaged_is_refused_or_read() {
        let sound = b"job/694d77aa.permit.3".to_vec();
        tenure_damage::hold(1000, tenure_damage::damaged(proptest::strategy::Just(sound)), |key| {
            if let Mode::Permit(of) = Key::mode(b"job/", &key) {
                proptest::prop_assert!(of > 0);
            }
            Ok(())
        });
    }
}
