//! What a request needs to be allowed, to say so when it is not.

use std::fmt;

use bytes::Bytes;

/// What a user lacked, as people grant it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NeededRight {
    /// To read keys: a first one, and the one after the last as the API writes it.
    Read(Bytes, Bytes),
    /// To write keys.
    Write(Bytes, Bytes),
    /// To see who leads an election or holds a lock.
    Observe(String),
    /// To be a candidate.
    Campaign(String),
    /// To transfer, evict, freeze and resume.
    Rule(String),
    /// The role `root`.
    Root,
    /// One of several: a transaction asks for much at once.
    Several,
}

impl NeededRight {
    /// Of a write that may need more than that: the value before, keys on the same lease.
    pub(super) fn write(plain: bool, key: Bytes, range_end: Bytes) -> NeededRight {
        if plain { NeededRight::Write(key, range_end) } else { NeededRight::Several }
    }

    /// What may not be done: `write "nightly/…"`.
    fn deed(&self) -> String {
        match self {
            NeededRight::Read(key, end) => format!("read {}", shown(key, end)),
            NeededRight::Write(key, end) => format!("write {}", shown(key, end)),
            NeededRight::Observe(name) => format!("observe {name:?}"),
            NeededRight::Campaign(name) => format!("campaign for {name:?}"),
            NeededRight::Rule(name) => format!("rule {name:?}"),
            NeededRight::Root => "do this without role root".to_owned(),
            NeededRight::Several => "read or write all of these keys".to_owned(),
        }
    }

    /// The command that allows it.
    fn cure(&self) -> String {
        let keys = |right: &str, key: &[u8], end: &[u8]| {
            let key = String::from_utf8_lossy(key);
            match end {
                [] => format!("tenure role grant-permission ROLE {right} {key:?}"),
                [0] => format!("tenure role grant-permission ROLE {right} {key:?} --from-key"),
                end if is_prefix(key.as_bytes(), end) => {
                    format!("tenure role grant-permission ROLE {right} {key:?} --prefix")
                }
                end => {
                    let end = String::from_utf8_lossy(end);
                    format!("tenure role grant-permission ROLE {right} {key:?} {end:?}")
                }
            }
        };
        match self {
            NeededRight::Read(key, end) => keys("read", key, end),
            NeededRight::Write(key, end) => keys("write", key, end),
            NeededRight::Observe(name) => {
                format!("tenure role grant-permission ROLE observe {name}/")
            }
            NeededRight::Campaign(name) => {
                format!("tenure role grant-permission ROLE campaign {name}/")
            }
            NeededRight::Rule(name) => format!("tenure role grant-permission ROLE rule {name}/"),
            NeededRight::Root => "tenure user grant-role USER root".to_owned(),
            NeededRight::Several => "tenure role grant-permission ROLE readwrite KEY".to_owned(),
        }
    }
}

/// Why a user may not, and what would allow it; without a name for a client that does not know its user.
pub(super) struct Denial<'a> {
    pub(super) user: Option<&'a str>,
    pub(super) need: &'a NeededRight,
}

impl fmt::Display for Denial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (deed, cure) = (self.need.deed(), self.need.cure());
        match self.user {
            Some(user) => write!(f, "permission denied: user {user:?} may not {deed}")?,
            None => write!(f, "permission denied: this user may not {deed}")?,
        }
        write!(f, "; grant it with: {cure}")
    }
}

fn shown(key: &[u8], end: &[u8]) -> String {
    let text = String::from_utf8_lossy(key);
    match end {
        [] => format!("{text:?}"),
        [0] => format!("{text:?} and all keys after it"),
        end if is_prefix(key, end) => format!("\"{}…\"", text.escape_debug()),
        end => format!("{text:?} up to {:?}", String::from_utf8_lossy(end)),
    }
}

/// Whether a range is that of all keys which begin with `key`.
fn is_prefix(key: &[u8], end: &[u8]) -> bool {
    match (key.split_last(), end.split_last()) {
        (Some((last, before)), Some((end_last, end_before))) => {
            before == end_before && last.checked_add(1) == Some(*end_last)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denial_names_the_user_the_right_and_the_cure() {
        let said = |need: NeededRight| Denial { user: Some("ops"), need: &need }.to_string();
        assert_eq!(
            said(NeededRight::Write("nightly/".into(), "nightly0".into())),
            "permission denied: user \"ops\" may not write \"nightly/…\"; grant it with: \
             tenure role grant-permission ROLE write \"nightly/\" --prefix"
        );
        assert!(said(NeededRight::Read("k".into(), Bytes::new())).ends_with("ROLE read \"k\""));
        assert!(
            said(NeededRight::Read("a".into(), "\0".into())).ends_with("read \"a\" --from-key")
        );
        assert!(said(NeededRight::Read("a".into(), "c".into())).contains("read \"a\" up to \"c\""));
        assert!(said(NeededRight::Campaign("jobs".into())).ends_with("ROLE campaign jobs/"));
    }
}
