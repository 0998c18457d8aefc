//! Settings of an elector, and their rules.

use std::sync::Arc;
use std::time::Duration;

use crate::host::Host;
use crate::session::default_identity;
use crate::tenancy::{TTL_MIN, margin};
use crate::{BadName, Candidacy, Election, ElectionName};

/// client-go's defaults.
const LEASE_DURATION: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RETRY_PERIOD: Duration = Duration::from_secs(2);
const JITTER_FACTOR: f64 = 1.2;
const STOP_GRACE: Duration = Duration::from_secs(1);
/// As long as a leader that cannot renew may take.
const STEP_DOWN_GRACE: Duration = RENEW_DEADLINE;

/// What to do with work that has not ended when it must.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLost {
    /// Drop its future. Work that blocks its thread runs on: use tokens.
    #[default]
    Cancel,
    /// End this process with that code.
    Exit(i32),
    /// End this process at once, without any clean-up.
    Abort,
}

/// What to do when leadership is not confirmed in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDoubt {
    /// Stop the work while it is still ours: at most one works. If leadership is taken away without a warning (an
    /// operator evicts the leader, revokes its session or freezes the name), the next one may begin within the
    /// [`stop_grace`](ElectorConfig::stop_grace) of the old one's work, unless it wants
    /// [`no_overlap`](ElectorConfig::no_overlap).
    #[default]
    Stop,
    /// Go on until it is known that another one leads: at least one works. **Duplicates are possible.**
    Continue,
}

/// Settings of an elector. The durations are client-go's.
#[derive(Clone, Debug)]
pub struct ElectorConfig {
    /// The election.
    pub name: ElectionName,
    /// Identity, for people; by default as that of a [session](crate::SessionOptions::identity).
    pub identity: String,
    /// The value that others read of the leader: its address, say. The identity by default.
    pub value: Option<Vec<u8>>,
    /// How long others wait for a leader that is silent.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it is in doubt.
    pub renew_deadline: Duration,
    /// How often the leader renews, and how long the elector waits before it tries anything again.
    pub retry_period: Duration,
    /// Pauses are stretched by up to this factor, each by another.
    pub jitter_factor: f64,
    /// What to do with work that has not ended when it must.
    pub on_lost: OnLost,
    /// What to do when leadership is not confirmed in time.
    pub on_doubt: OnDoubt,
    /// How long work may take to end when leadership is taken away without a warning. There is no such time when the
    /// deadline has passed already, as in a process that slept through it.
    pub stop_grace: Duration,
    /// How long work may take to end when this process says that it is not fit to lead
    /// ([`LeaderElector::report_health`](super::LeaderElector::report_health)). Then
    /// [`on_lost`](Self::on_lost) is done with it, and leadership given up.
    pub step_down_grace: Duration,
    /// Lead only when the leader before has surely stopped; for engines that can tell. On others, campaigning fails.
    pub no_overlap: bool,
    /// Be elected before candidates of lower priority, from 0 to 1000; for engines that can.
    pub priority: u32,
    /// Take over from a leader of lower priority; for engines that can.
    pub preempts: bool,
    /// Let the next candidate lead as soon as the kernel of this process has closed its connection, about 50 ms after
    /// its death, and not after [`lease_duration`](Self::lease_duration); for engines that can. A broken connection then
    /// ends leadership too, so a member that restarts costs a tenure. Off by default.
    pub fast_release: bool,
    /// What everything runs on: this, if it is given; otherwise sessions have threads of their own, and the
    /// rest is done on the runtime that the elector is run on. For simulators.
    pub host: Option<Arc<dyn Host>>,
}

impl ElectorConfig {
    /// client-go's defaults for the election of this name.
    ///
    /// # Errors
    /// [`BadName`], for what cannot be one.
    pub fn new(
        name: impl TryInto<ElectionName, Error: Into<BadName>>,
    ) -> Result<ElectorConfig, BadName> {
        Ok(ElectorConfig {
            name: ElectionName::read(name)?,
            identity: default_identity(),
            value: None,
            lease_duration: LEASE_DURATION,
            renew_deadline: RENEW_DEADLINE,
            retry_period: RETRY_PERIOD,
            jitter_factor: JITTER_FACTOR,
            on_lost: OnLost::default(),
            on_doubt: OnDoubt::default(),
            stop_grace: STOP_GRACE,
            step_down_grace: STEP_DOWN_GRACE,
            no_overlap: false,
            priority: 0,
            preempts: false,
            fast_release: false,
            host: None,
        })
    }

    /// Checks every rule.
    ///
    /// # Errors
    /// [`ConfigError`] names all that are broken.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let (lease, renew, retry) = (self.lease_duration, self.renew_deadline, self.retry_period);
        let mut broken = Vec::new();
        if lease < TTL_MIN {
            broken.push(format!("lease duration {lease:?} must be at least {TTL_MIN:?}"));
        }
        if renew >= lease.saturating_sub(margin(lease)) {
            let margin = margin(lease);
            broken.push(format!(
                "renew deadline {renew:?} must be shorter than lease duration {lease:?} by more than {margin:?}"
            ));
        }
        if retry.is_zero() {
            broken.push("retry period must not be zero".to_owned());
        }
        if !self.jitter_factor.is_finite() || self.jitter_factor < 1.0 {
            broken.push(format!("jitter factor {} must be at least 1", self.jitter_factor));
        } else if renew.as_secs_f64() <= retry.as_secs_f64() * self.jitter_factor {
            let factor = self.jitter_factor;
            broken.push(format!(
                "renew deadline {renew:?} must be longer than retry period {retry:?} times jitter factor {factor}"
            ));
        }
        if broken.is_empty() { Ok(()) } else { Err(ConfigError { broken }) }
    }

    /// A candidacy with these settings.
    pub(super) fn candidacy(&self, election: &Election) -> Candidacy {
        let mut candidacy = election.candidate(self.value());
        if self.priority > 0 {
            candidacy = candidacy.priority(self.priority);
        }
        if self.preempts {
            candidacy = candidacy.preempting();
        }
        if self.no_overlap {
            candidacy = candidacy.without_overlap();
        }
        candidacy
    }

    fn value(&self) -> Vec<u8> {
        self.value.clone().unwrap_or_else(|| self.identity.clone().into_bytes())
    }
}

/// Settings that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .broken.join("; "))]
pub struct ConfigError {
    /// Every rule that is broken.
    pub broken: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ElectorConfig {
        ElectorConfig::new("job").unwrap()
    }

    #[test]
    fn elector_defaults_are_those_of_client_go_and_valid() {
        let config = config();
        config.validate().unwrap();
        let secs = [config.lease_duration, config.renew_deadline, config.retry_period]
            .map(|time| time.as_secs());
        assert_eq!((secs, config.jitter_factor), ([15, 10, 2], 1.2));
        assert_eq!(config.value(), config.identity.as_bytes());
    }

    #[test]
    fn elector_config_names_every_broken_rule_at_once() {
        let mut config = config();
        config.renew_deadline = Duration::from_secs(15);
        config.retry_period = Duration::from_secs(14);
        let error = config.validate().unwrap_err();
        assert_eq!(error.broken.len(), 2, "{error}");
        config.jitter_factor = 0.5;
        config.lease_duration = Duration::from_millis(1);
        config.retry_period = Duration::ZERO;
        assert_eq!(config.validate().unwrap_err().broken.len(), 4);
    }

    #[test]
    fn elector_lease_is_longer_than_renewing_is_longer_than_retrying() {
        let mut config = config();
        config.renew_deadline = Duration::from_millis(2_400);
        assert!(config.validate().is_err(), "2 s × 1.2 is 2.4 s");
        config.renew_deadline = Duration::from_millis(2_401);
        config.validate().unwrap();
    }
}
