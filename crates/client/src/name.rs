//! The name of an election or a lock.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest name.
pub use tenure_api::election::NAME_BYTES_MAX;

/// The name of an election, a lock or a semaphore.
///
/// Its candidates are keys below `<name>/`. On etcd everything below counts, so names must not be nested: `job` would
/// wait for every candidate for `job/1`.
///
/// ```
/// use tenure::ElectionName;
///
/// let name: ElectionName = "backup/nightly".parse()?;
/// assert_eq!(name.as_str(), "backup/nightly");
/// assert!("backup/".parse::<ElectionName>().is_err());
/// # Ok::<(), tenure::BadName>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElectionName(Arc<str>);

/// What is wrong with a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("name {name:?}: {rule}")]
pub struct BadName {
    /// As it was written.
    pub name: String,
    /// What it must be.
    pub rule: &'static str,
}

impl ElectionName {
    /// Whatever can be a name, as one.
    pub(crate) fn read(
        name: impl TryInto<ElectionName, Error: Into<BadName>>,
    ) -> Result<ElectionName, BadName> {
        name.try_into().map_err(Into::into)
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ElectionName {
    type Err = BadName;

    fn from_str(name: &str) -> Result<ElectionName, BadName> {
        let refused = |rule| Err(BadName { name: name.chars().take(80).collect(), rule });
        match () {
            () if name.is_empty() => refused("must not be empty"),
            () if name.len() > NAME_BYTES_MAX => refused("must not be longer than 1024 bytes"),
            () if name.ends_with('/') => refused("must not end with a slash"),
            () if name.contains("//") => refused("must not have an empty part"),
            () if name.rsplit('/').next() == Some("!frozen") => refused("must not end in !frozen"),
            () => Ok(ElectionName(name.into())),
        }
    }
}

/// A name that is one already cannot be bad.
impl From<Infallible> for BadName {
    fn from(never: Infallible) -> BadName {
        match never {}
    }
}

impl TryFrom<&str> for ElectionName {
    type Error = BadName;

    fn try_from(name: &str) -> Result<ElectionName, BadName> {
        name.parse()
    }
}

impl TryFrom<String> for ElectionName {
    type Error = BadName;

    fn try_from(name: String) -> Result<ElectionName, BadName> {
        name.parse()
    }
}

impl fmt::Display for ElectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
