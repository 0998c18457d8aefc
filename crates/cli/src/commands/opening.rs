//! Opening sessions, for the verbs that campaign again and again.
//!
//! A server that is away is waited for, once there was one; whether the first one is, is `--wait-for-server`. A refusal
//! before the first session is final: it is about what was asked for.

use std::time::Duration;

use tenure::{EngineError, SessionError};

use crate::advice;
use crate::talk::talk;

/// Between attempts to open a session.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How opening a session goes.
#[derive(Debug)]
pub(in crate::commands) struct SessionOpening {
    /// Whether the first one is waited for.
    waits: bool,
    /// There was one.
    opened: bool,
    told: bool,
    pause: Duration,
}

impl SessionOpening {
    /// Before the first attempt.
    pub(in crate::commands) fn new(waits: bool) -> SessionOpening {
        SessionOpening { waits, opened: false, told: false, pause: PAUSE_FIRST }
    }

    /// Whether there was none yet.
    pub(in crate::commands) fn is_first(&self) -> bool {
        !self.opened
    }

    /// There is one.
    pub(in crate::commands) fn succeeded(&mut self) {
        *self = SessionOpening { opened: true, ..SessionOpening::new(self.waits) };
    }

    /// An attempt failed: how long to pause before the next, which is said once.
    ///
    /// # Errors
    /// The same, if there is to be no other attempt.
    pub(in crate::commands) fn failed(&mut self, error: SessionError) -> anyhow::Result<Duration> {
        let passes = !matches!(
            error,
            SessionError::Settings { .. } | SessionError::Engine(EngineError::Refused { .. })
        );
        let error = anyhow::Error::from(error);
        let goes_on = self.opened || (self.waits && passes);
        if !goes_on {
            return Err(error);
        }
        if !std::mem::replace(&mut self.told, true) {
            let waiting = if self.opened { "" } else { "waiting for a server: " };
            talk!("tenure: {waiting}{error:#}; trying again");
            if let Some(next) = advice::next_step(&error) {
                talk!("tenure: {next}");
            }
        }
        let pause = self.pause;
        self.pause = PAUSE_MAX.min(pause * 2);
        Ok(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> SessionError {
        let text = "no member reachable at a:1: connection refused".to_owned();
        SessionError::Engine(EngineError::Unavailable { text })
    }

    fn refused() -> SessionError {
        SessionError::Engine(EngineError::Refused { kind: None, text: "no".to_owned() })
    }

    #[test]
    fn session_opening_waits_for_the_first_server_only_if_asked_to() {
        assert!(SessionOpening::new(false).failed(away()).is_err());
        let mut waiting = SessionOpening::new(true);
        assert_eq!(waiting.failed(away()).unwrap(), PAUSE_FIRST);
        assert_eq!(waiting.failed(away()).unwrap(), PAUSE_FIRST * 2);
        assert!(
            waiting.failed(refused()).is_err(),
            "a refusal is final before there was a session"
        );
    }

    #[test]
    fn session_opening_waits_for_servers_that_were_there_once() {
        let mut opening = SessionOpening::new(false);
        opening.succeeded();
        for error in [away(), refused(), away()] {
            opening.failed(error).unwrap();
        }
    }
}
