//! Passwords, as bcrypt makes and checks them.
//!
//! bcrypt is slow on purpose. It runs on a few threads beside the core loop; a bounded number of requests waits for them, and
//! more are refused. For a user that does not exist, something else is checked, so that the time tells nothing.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::Failure;
use tenure_replica::auth::Secret;
use tracing::warn;

use crate::grpc::BlockingPool;

/// What bcrypt reads at most.
pub(super) const PASSWORD_BYTES_MAX: usize = 72;
/// The cost unless the settings say otherwise.
pub(crate) const BCRYPT_COST: u32 = 10;
/// The lowest cost.
const BCRYPT_COST_MIN: u32 = 4;
/// The highest cost.
const BCRYPT_COST_MAX: u32 = 31;

/// Makes and checks passwords.
#[derive(Clone, Debug)]
pub(crate) struct Passwords {
    cost: u32,
    pool: BlockingPool,
    /// What is checked in place of the password of a user that does not exist.
    dummy: Arc<std::sync::OnceLock<String>>,
}

impl Passwords {
    /// At this cost, or the usual one if bcrypt has none such.
    pub(crate) fn new(cost: u32) -> Passwords {
        let known = (BCRYPT_COST_MIN..=BCRYPT_COST_MAX).contains(&cost);
        if !known {
            warn!(
                cost,
                "--bcrypt-cost must be from {BCRYPT_COST_MIN} to {BCRYPT_COST_MAX}; it is {BCRYPT_COST} now"
            );
        }
        let cost = if known { cost } else { BCRYPT_COST };
        Passwords { cost, pool: BlockingPool::passwords(), dummy: Arc::default() }
    }

    /// What is kept of a password.
    pub(crate) async fn make(&self, password: String) -> Result<Secret, Failure> {
        if password.len() > PASSWORD_BYTES_MAX {
            return Err(Failure::PasswordTooLong);
        }
        let cost = self.cost;
        let made = self.pool.run(move || make(&password, cost)).await?;
        made.map(|text| Bytes::from(text).into()).ok_or(Failure::Stopped)
    }

    /// Whether this is the password. Without one to compare with, it takes as long.
    pub(crate) async fn check(
        &self,
        password: String,
        kept: Option<Secret>,
    ) -> Result<bool, Failure> {
        let (cost, dummy) = (self.cost, self.dummy.clone());
        let check = move || {
            let dummy = dummy.get_or_init(|| make("", cost).unwrap_or_default());
            let text = kept.as_ref().and_then(|kept| std::str::from_utf8(kept.expose()).ok());
            // What cannot be read matches no password, and takes as long as well.
            let readable = text.filter(|text| text.parse::<bcrypt::HashParts>().is_ok());
            let fits = bcrypt::verify(&password, readable.unwrap_or(dummy)).unwrap_or(false);
            // An empty password never logs in, and none is longer than what bcrypt reads.
            let is_one = (1..=PASSWORD_BYTES_MAX).contains(&password.len());
            fits && is_one && readable.is_some()
        };
        self.pool.run(check).await
    }
}

/// As etcd writes it, so that its members can read it.
pub(super) fn make(password: &str, cost: u32) -> Option<String> {
    let parts = bcrypt::hash_with_result(password, cost).ok()?;
    Some(parts.format_for_version(bcrypt::Version::TwoA))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn password_is_checked_by_what_was_made_of_it() {
        let passwords = Passwords::new(BCRYPT_COST_MIN);
        let kept = passwords.make("secret".to_owned()).await.unwrap();
        assert!(kept.expose().starts_with(b"$2a$04$"));
        assert!(!format!("{kept:?}").contains("2a"));
        let check =
            |password: &str, kept: Option<Secret>| passwords.check(password.to_owned(), kept);
        assert_eq!(check("secret", Some(kept.clone())).await, Ok(true));
        assert_eq!(check("Secret", Some(kept.clone())).await, Ok(false));
        assert_eq!(check("secret", None).await, Ok(false));
        assert_eq!(check("", None).await, Ok(false));
        assert_eq!(check("secret", Some(Bytes::from("no hash").into())).await, Ok(false));
    }

    #[tokio::test]
    async fn password_that_is_empty_or_too_long_never_logs_in() {
        let passwords = Passwords::new(BCRYPT_COST_MIN);
        let empty = passwords.make(String::new()).await.unwrap();
        assert_eq!(passwords.check(String::new(), Some(empty)).await, Ok(false));
        let longest = "x".repeat(PASSWORD_BYTES_MAX);
        let kept = passwords.make(longest.clone()).await.unwrap();
        let longer = longest.clone() + "x";
        assert_eq!(passwords.make(longer.clone()).await, Err(Failure::PasswordTooLong));
        assert_eq!(passwords.check(longer, Some(kept.clone())).await, Ok(false));
        assert_eq!(passwords.check(longest, Some(kept)).await, Ok(true));
    }

    #[test]
    fn password_cost_that_bcrypt_does_not_have_becomes_the_usual_one() {
        assert_eq!(Passwords::new(3).cost, BCRYPT_COST);
        assert_eq!(Passwords::new(32).cost, BCRYPT_COST);
        assert_eq!(Passwords::new(4).cost, 4);
    }
}
