//! Settings of a session.

use std::sync::Arc;
use std::time::Duration;

use crate::SessionError;
use crate::host::Host;
use crate::tenancy::TTL_MIN;

/// The longest time to live that makes sense: etcd's own limit is about 285 years.
const TTL_MAX: Duration = Duration::from_secs(9_000_000_000);

/// Settings of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// How long it lives without a sign of life. Engines may raise it: etcd knows whole seconds only.
    pub ttl: Duration,
    /// Identity, for people. By default `TENURE_IDENTITY` of the environment, then the host's name and the process id.
    pub identity: String,
    /// End the session as soon as the process dies and its kernel closes the connection, instead of
    /// after its time to live; for engines that can. A broken connection can then end a session whose
    /// process lives: one *effective* holder is promised, by its token, not one believer.
    pub fast_release: bool,
    /// Renew at the latest so long after the last renewal. A third of the time to live by default,
    /// and never later.
    pub renew_after: Option<Duration>,
    /// Be in doubt at the latest so long after the last acknowledged renewal was sent. Three quarters of
    /// the time to live by default, and never later.
    pub suspect_after: Option<Duration>,
    /// What it is kept on: as a task there, if one is given; otherwise on a thread of its own, which no
    /// other work can hold up. For simulators.
    pub host: Option<Arc<dyn Host>>,
}

impl SessionOptions {
    /// A session of this time to live, with defaults for everything else.
    pub fn new(ttl: Duration) -> SessionOptions {
        SessionOptions {
            ttl,
            identity: default_identity(),
            fast_release: false,
            renew_after: None,
            suspect_after: None,
            host: None,
        }
    }

    /// Checks every rule.
    ///
    /// # Errors
    /// [`SessionError::Settings`] names all that are broken.
    pub fn validate(&self) -> Result<(), SessionError> {
        let mut broken = Vec::new();
        if self.ttl < TTL_MIN {
            broken.push(format!("ttl {:?} must be at least {TTL_MIN:?}", self.ttl));
        }
        if self.ttl > TTL_MAX {
            broken.push(format!("ttl {:?} must be at most {TTL_MAX:?}", self.ttl));
        }
        for (what, time) in
            [("renew_after", self.renew_after), ("suspect_after", self.suspect_after)]
        {
            if time.is_some_and(|time| time.is_zero()) {
                broken.push(format!("{what} must not be zero"));
            }
        }
        if broken.is_empty() {
            Ok(())
        } else {
            Err(SessionError::Settings { rule: broken.join("; ") })
        }
    }
}

/// `TENURE_IDENTITY`, if it says something; otherwise the host's name and the process id: `web-3/1742`.
pub(crate) fn default_identity() -> String {
    let given = std::env::var("TENURE_IDENTITY").ok().filter(|identity| !identity.is_empty());
    given.unwrap_or_else(|| {
        let host = rustix::system::uname();
        format!("{}/{}", host.nodename().to_string_lossy(), std::process::id())
    })
}
