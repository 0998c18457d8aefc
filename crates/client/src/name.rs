//! The name of an election or a lock.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest name.
pub const NAME_BYTES_MAX: usize = 1024;

/// The name of a line that one can stand in: of an election, a lock, a semaphore.
///
/// Its places are keys below `<name>/`. On etcd everything below counts, so names must not be nested:
/// `job` would wait for everybody who stands in line for `job/1`.
///
/// ```
/// use tenure::LineName;
///
/// let name: LineName = "backup/nightly".parse()?;
/// assert_eq!(name.as_str(), "backup/nightly");
/// assert!("backup/".parse::<LineName>().is_err());
/// # Ok::<(), tenure::BadName>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineName(Arc<str>);

/// What is wrong with a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("name {name:?}: {rule}")]
pub struct BadName {
    /// As it was written.
    pub name: String,
    /// What it must be.
    pub rule: &'static str,
}

impl LineName {
    /// Whatever can be a name, as one.
    pub(crate) fn read(
        name: impl TryInto<LineName, Error: Into<BadName>>,
    ) -> Result<LineName, BadName> {
        name.try_into().map_err(Into::into)
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LineName {
    type Err = BadName;

    fn from_str(name: &str) -> Result<LineName, BadName> {
        let refused = |rule| Err(BadName { name: name.chars().take(80).collect(), rule });
        match () {
            () if name.is_empty() => refused("must not be empty"),
            () if name.len() > NAME_BYTES_MAX => refused("must not be longer than 1024 bytes"),
            () if name.ends_with('/') => refused("must not end with a slash"),
            () if name.contains("//") => refused("must not have an empty part"),
            () if name.rsplit('/').next() == Some("!frozen") => refused("must not end in !frozen"),
            () => Ok(LineName(name.into())),
        }
    }
}

/// A name that is one already cannot be bad.
impl From<Infallible> for BadName {
    fn from(never: Infallible) -> BadName {
        match never {}
    }
}

impl TryFrom<&str> for LineName {
    type Error = BadName;

    fn try_from(name: &str) -> Result<LineName, BadName> {
        name.parse()
    }
}

impl TryFrom<String> for LineName {
    type Error = BadName;

    fn try_from(name: String) -> Result<LineName, BadName> {
        name.parse()
    }
}

impl fmt::Display for LineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
