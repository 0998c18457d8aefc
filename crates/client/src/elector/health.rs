//! Adapters for `/healthz` and `/metrics`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{ElectorState, Inner};
use crate::session::Core;

/// What the adapters read.
#[derive(Default)]
pub(super) struct Shared {
    session: Mutex<Option<Arc<Core>>>,
    /// Slow renewals of sessions that are over.
    slow_before: AtomicU64,
}

impl Shared {
    /// From now on this is the session.
    pub(super) fn follow(&self, core: &Arc<Core>) {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = session.replace(Arc::clone(core)) {
            self.slow_before.fetch_add(before.slow_renewals(), Ordering::Relaxed);
        }
    }

    fn session(&self) -> Option<Arc<Core>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Says whether this process should be restarted because of its election: only if it believes to lead,
/// and could not renew long past the end of its lease. Not leading is healthy.
#[derive(Clone)]
pub struct Healthz {
    inner: Arc<Inner>,
}

/// A leader that could not renew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("leading, and not confirmed for {unconfirmed:?}")]
pub struct Unhealthy {
    /// How long ago the last acknowledged renewal was sent.
    pub unconfirmed: Duration,
}

impl Healthz {
    pub(super) fn new(inner: Arc<Inner>) -> Healthz {
        Healthz { inner }
    }

    /// Fails if this process still does the leader's work although its lease ended longer than `tolerance`
    /// ago.
    ///
    /// # Errors
    /// [`Unhealthy`] says for how long.
    pub fn check(&self, tolerance: Duration) -> Result<(), Unhealthy> {
        if *self.inner.state.borrow() == ElectorState::Standby {
            return Ok(());
        }
        let Some(core) = self.inner.health.session() else { return Ok(()) };
        // As it was granted, which may be longer than what was asked for.
        let (unconfirmed, lease) = (core.unconfirmed_for(), core.ttl());
        if unconfirmed > lease + tolerance { Err(Unhealthy { unconfirmed }) } else { Ok(()) }
    }
}

impl fmt::Debug for Healthz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Healthz").field("name", &self.inner.config.name).finish()
    }
}

/// client-go's metrics. As text they are what Prometheus reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// The election.
    pub name: String,
    /// Whether this process leads (`leader_election_master_status`).
    pub master_status: bool,
    /// Renewals that needed more than one attempt (`leader_election_slowpath_total`).
    pub slowpath_total: u64,
}

impl Metrics {
    pub(super) fn read(inner: &Inner) -> Metrics {
        let now = inner.health.session().map_or(0, |core| core.slow_renewals());
        let state = *inner.state.borrow();
        Metrics {
            name: inner.config.name.to_string(),
            master_status: matches!(state, ElectorState::Held(_) | ElectorState::Suspect(_)),
            slowpath_total: inner.health.slow_before.load(Ordering::Relaxed) + now,
        }
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let (status, slow) = (u8::from(self.master_status), self.slowpath_total);
        writeln!(f, "# HELP leader_election_master_status Whether this process leads.")?;
        writeln!(f, "# TYPE leader_election_master_status gauge")?;
        writeln!(f, "leader_election_master_status{{name=\"{name}\"}} {status}")?;
        writeln!(
            f,
            "# HELP leader_election_slowpath_total Renewals that needed more than one attempt."
        )?;
        writeln!(f, "# TYPE leader_election_slowpath_total counter")?;
        writeln!(f, "leader_election_slowpath_total{{name=\"{name}\"}} {slow}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elector_metrics_are_not_broken_by_a_name() {
        let metrics = Metrics { name: "a\"b\\".into(), master_status: true, slowpath_total: 3 };
        let text = metrics.to_string();
        assert!(text.contains("leader_election_master_status{name=\"a\\\"b\\\\\"} 1\n"), "{text}");
        assert!(text.contains("leader_election_slowpath_total{name=\"a\\\"b\\\\\"} 3\n"), "{text}");
    }
}
