//! The token itself: a number that says which hold is newer.

use std::{fmt, num::ParseIntError, str::FromStr};

/// Proof of when a hold began. Of two tokens for one name, the larger belongs to the newer holder.
///
/// It is the create revision of the holder's key: the cluster gives every revision once, in order,
/// and neither restart nor restore takes one back. So a token needs no counter of its own, and
/// tokens of different names can be told apart too.
///
/// ```
/// use tenure::fence::FencingToken;
///
/// let older = FencingToken::from_revision(7).unwrap();
/// let newer = FencingToken::from_revision(9).unwrap();
/// assert!(older < newer);
/// assert_eq!(newer.to_string().parse(), Ok(newer));
/// assert_eq!(FencingToken::from_revision(0), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// The name of the HTTP header that carries a token.
    pub const HEADER: &'static str = "Fencing-Token";

    /// The token of a key that was created at this revision. A key that does not exist has create
    /// revision 0, and that is no token.
    pub fn from_revision(revision: i64) -> Option<FencingToken> {
        (revision > 0).then_some(FencingToken(revision))
    }

    /// As a number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What was given as a token is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fencing token is a decimal number from 1 to {max}", max = i64::MAX)]
pub struct NotAToken {
    #[source]
    cause: Option<ParseIntError>,
}

/// Only the form that [`fmt::Display`] writes: no sign, no space, no leading zero. Two texts that
/// a proxy or a log compares as different must not be the same token.
impl FromStr for FencingToken {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<FencingToken, NotAToken> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || text.starts_with('0') {
            return Err(NotAToken { cause: None });
        }
        let revision = text.parse().map_err(|cause| NotAToken { cause: Some(cause) })?;
        FencingToken::from_revision(revision).ok_or(NotAToken { cause: None })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_token_is_read_back_and_keeps_its_place(a in 1..=i64::MAX, b in 1..=i64::MAX) {
            let [a_token, b_token] = [a, b].map(|n| FencingToken::from_revision(n).unwrap());
            prop_assert_eq!(a_token.to_string().parse(), Ok(a_token));
            prop_assert_eq!(a_token.cmp(&b_token), a.cmp(&b));
        }

        #[test]
        fn whatever_is_read_is_written_the_same(text in "[-+ 0-9]{0,21}") {
            if let Ok(token) = text.parse::<FencingToken>() {
                prop_assert_eq!(token.to_string(), text);
            }
        }
    }

    #[test]
    fn token_is_never_made_of_what_is_no_revision() {
        for revision in [0, -1, i64::MIN] {
            assert_eq!(FencingToken::from_revision(revision), None);
        }
        for text in ["", "0", "-1", "+1", " 1", "1 ", "01", "1_0", "0x1", "9223372036854775808"] {
            assert!(text.parse::<FencingToken>().is_err(), "{text:?}");
        }
    }
}
