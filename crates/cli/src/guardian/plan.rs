//! When to do what to the command: as a value, a function of moments that are handed in.
//!
//! ```text
//!           renewal sent                         SIGTERM            SIGKILL    gone      the server
//!  ─────────┼────────────────────────────────────┼──────────────────┼──────────┼─────────┼──
//!           confirmed                             ◄───── grace ─────►◄ kill time ►◄ margin ►
//!                                                                               until     until + margin
//! ```
//!
//! `until` is the holder's deadline, which lies a margin before the server's. Everything must be gone
//! by then, so SIGKILL comes a *kill time* before it and SIGTERM the grace before that. A later
//! renewal moves all of it; but once the command was told to end, it is ended.

use std::time::Duration;

use tenure::clock::Moment;

/// The shortest time that is allowed for killing.
const KILL_TIME_MIN: Duration = Duration::from_millis(100);
/// The part of the lease that is set aside for it: the longer people can wait, the more trouble a machine may
/// have with scheduling us.
const KILL_TIMES_PER_TTL: u32 = 40;

/// How long a tree may take to be gone once it was killed, and the guardian to get to it. Inner kills two of
/// these before the deadline, outer one.
pub(crate) fn kill_time(ttl: Duration) -> Duration {
    KILL_TIME_MIN.max(ttl / KILL_TIMES_PER_TTL)
}

/// Why the command is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The level above said so.
    Ordered,
    /// The level above is gone.
    Abandoned,
    /// No renewal was confirmed in time.
    Doubt,
    /// The command itself has ended; what it left behind follows.
    Ended,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing: it runs.
    Nothing,
    /// It is being ended by itself; this signal told it so.
    Terminate(i32),
    /// Kill.
    Kill,
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    since: Moment,
    cause: Cause,
    signal: i32,
    at_once: bool,
}

/// When to do what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    grace: Duration,
    /// How much longer than the grace may be waited when the deadline is far.
    patience: Duration,
    kill_time: Duration,
    until: Option<Moment>,
    stop: Option<Stop>,
    /// The signal that ends a command in doubt.
    signal: i32,
}

impl Plan {
    /// A command that may run until that moment; for ever, if there is none.
    pub(super) fn new(
        grace: Duration,
        kill_time: Duration,
        until: Option<Moment>,
        signal: i32,
    ) -> Plan {
        Plan { grace, patience: Duration::ZERO, kill_time, until, stop: None, signal }
    }

    /// The same, but later in killing by that much while the deadline is far: another guardian kills in time.
    #[must_use]
    pub(super) fn patient(self, patience: Duration) -> Plan {
        Plan { patience, ..self }
    }

    /// The lease is sure to last until then. Never shortens what was sure before. A command that ran
    /// under none does from now on.
    pub(super) fn extend(&mut self, until: Moment) {
        self.until = Some(self.until.map_or(until, |known| known.max(until)));
    }

    /// It is to be ended. The first reason counts.
    pub(super) fn stop(&mut self, now: Moment, cause: Cause, signal: i32) {
        self.stop.get_or_insert(Stop { since: now, cause, signal, at_once: false });
    }

    /// It is to be ended without grace.
    pub(super) fn kill(&mut self, now: Moment, cause: Cause) {
        let signal = self.signal;
        self.stop.get_or_insert(Stop { since: now, cause, signal, at_once: true }).at_once = true;
    }

    /// Why it is being stopped, if it is.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.stop.map(|stop| stop.cause)
    }

    /// What is to be done. Doubt is for good, so asking may change later answers.
    pub(super) fn due(&mut self, now: Moment) -> Due {
        if self.doubt_at().is_some_and(|at| now >= at) {
            self.stop(now, Cause::Doubt, self.signal);
        }
        match self.stop {
            None => Due::Nothing,
            Some(_) if self.kill_at().is_some_and(|at| now >= at) => Due::Kill,
            Some(stop) => Due::Terminate(stop.signal),
        }
    }

    /// When the answer changes by the passing of time alone.
    pub(super) fn next(&self) -> Option<Moment> {
        match self.stop {
            None => self.doubt_at(),
            Some(_) => self.kill_at(),
        }
    }

    /// The deadline, if there is one.
    pub(super) fn until(&self) -> Option<Moment> {
        self.until
    }

    fn doubt_at(&self) -> Option<Moment> {
        self.until.map(|until| before(until, self.kill_time + self.grace))
    }

    fn kill_at(&self) -> Option<Moment> {
        let stop = self.stop?;
        let polite =
            if stop.at_once { stop.since } else { stop.since + self.grace + self.patience };
        let latest = self.until.map(|until| before(until, self.kill_time));
        Some(latest.map_or(polite, |latest| latest.min(polite)))
    }
}

/// The moment so long before; the clock's beginning if there is none.
fn before(moment: Moment, time: Duration) -> Moment {
    Moment::after_start(moment.since_start().saturating_sub(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: i32 = 15;

    fn at(ms: u64) -> Moment {
        Moment::after_start(Duration::from_millis(ms))
    }

    fn plan(until: u64) -> Plan {
        Plan::new(Duration::from_millis(2_000), Duration::from_millis(200), Some(at(until)), TERM)
    }

    #[test]
    fn guardian_plan_ends_the_command_in_time_in_silence() {
        let mut plan = plan(9_900);
        assert_eq!(plan.due(at(7_699)), Due::Nothing);
        assert_eq!(plan.next(), Some(at(7_700)));
        assert_eq!(plan.due(at(7_700)), Due::Terminate(TERM));
        assert_eq!(plan.cause(), Some(Cause::Doubt));
        assert_eq!(plan.due(at(9_699)), Due::Terminate(TERM));
        assert_eq!(plan.due(at(9_700)), Due::Kill);
    }

    #[test]
    fn guardian_plan_is_moved_by_a_renewal_but_not_called_back() {
        let mut plan = plan(9_900);
        plan.extend(at(13_000));
        assert_eq!(plan.due(at(9_000)), Due::Nothing);
        assert_eq!(plan.due(at(10_900)), Due::Terminate(TERM));
        plan.extend(at(20_000));
        assert_eq!(plan.due(at(12_000)), Due::Terminate(TERM));
        // It has its whole grace: no other process may lead before the new deadline.
        assert_eq!(plan.due(at(12_900)), Due::Kill);
    }

    #[test]
    fn guardian_plan_gives_the_grace_or_what_the_lease_leaves_of_it() {
        let mut early = plan(9_900);
        early.stop(at(1_000), Cause::Ordered, 2);
        assert_eq!(early.due(at(1_000)), Due::Terminate(2));
        assert_eq!(early.due(at(3_000)), Due::Kill);
        let mut late = plan(9_900);
        late.stop(at(7_690), Cause::Ordered, 2);
        assert_eq!(late.next(), Some(at(9_690)));
        let mut never = Plan::new(Duration::from_secs(1), Duration::ZERO, None, TERM);
        assert_eq!((never.due(at(u32::MAX.into())), never.next()), (Due::Nothing, None));
    }

    /// Whatever is ordered, and whenever: nothing is left alive for later than the deadline allows.
    #[test]
    fn guardian_plan_kills_before_the_deadline_whatever_is_said() {
        for step in [1, 7, 130, 999, 2_500] {
            for stop_at in [0, 500, 5_000, 9_000, 9_650, 20_000] {
                for kill_at in [0, 3_000, 9_690, 20_000] {
                    let mut plan = plan(9_900);
                    let mut now = 0;
                    while plan.due(at(now)) != Due::Kill {
                        assert!(now < 9_700 + step, "killed late: step {step} stop {stop_at}");
                        if now >= stop_at {
                            plan.stop(at(now), Cause::Ordered, TERM);
                        }
                        if now >= kill_at && stop_at % 1_000 == 0 {
                            plan.kill(at(now), Cause::Ordered);
                        }
                        plan.extend(at(9_900 - now.min(9_000)));
                        now += step;
                    }
                }
            }
        }
    }
}
