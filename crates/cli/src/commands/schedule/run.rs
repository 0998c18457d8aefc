//! One run of a job: from its claim to its result.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tenure::clock::{Boottime, Clock};
use tenure::fence::HolderKey;
use tenure::{Held, SessionState};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::file::Job;
use crate::commands::run::overdue;
use crate::exit::Exit;
use crate::guardian::{Charge, Ending, Guardian, News};
use crate::jobs::{Claim, Claimed, Outcome, Record, Slots, SlotsError, host_now_ms};
use crate::talk::talk;

/// Between attempts to write what came of a slot, and between a failure and the next start.
const PAUSE: Duration = Duration::from_millis(500);

/// What all runs of a tenure have in common.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) held: Arc<Held>,
    pub(super) holder: HolderKey,
    pub(super) identity: String,
    pub(super) ttl: Duration,
    pub(super) grace: Duration,
    /// Whether all runs are to end.
    pub(super) stop: watch::Receiver<bool>,
    pub(super) quiet: bool,
}

/// A slot that this leader is to run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) terms: Arc<Terms>,
    pub(super) job: Job,
    pub(super) slots: Slots,
    pub(super) slot: String,
}

/// How a command ended.
enum End {
    By(Ending),
    /// It was ended: the lead was lost or given up.
    Stopped(Option<Ending>),
    TooLong,
    /// It could not be started or followed.
    Unguarded,
}

impl Run {
    /// Runs it, if it has not been run. The result is in the store when this returns, if the store can be reached.
    pub(super) async fn play(self) {
        let name = format!("{} for {}", self.job.name, self.slot);
        let claimed = match self.claim(Outcome::Running).await {
            Ok(Claim::Ours(claimed)) => claimed,
            // Another leader was here.
            Ok(Claim::Taken(_)) => return,
            Err(error) => return talk!("tenure: cannot claim {name}: {error:#}"),
        };
        self.say(&format!("starting {name}"));
        let mut attempts = 0;
        let end = loop {
            let end = self.attempt().await;
            attempts += 1;
            let failed = matches!(end, End::By(ending) if ending != Ending::Code(0));
            if !failed || attempts > self.job.retries || *self.terms.stop.borrow() {
                break end;
            }
            self.say(&format!("{name} failed, starting it again"));
            sleep(PAUSE).await;
        };
        let (outcome, exit, text) = match end {
            End::By(ending) => {
                let exit = Exit::of_ending(ending);
                let done = ending == Ending::Code(0);
                let text = if done {
                    "is done".to_owned()
                } else {
                    format!("failed with exit code {}", exit.code())
                };
                (if done { Outcome::Done } else { Outcome::Failed }, Some(exit), text)
            }
            End::Stopped(ending) => {
                (Outcome::Failed, ending.map(Exit::of_ending), "was ended".to_owned())
            }
            End::TooLong => {
                (Outcome::Failed, Some(Exit::TimedOut), "took too long and was ended".to_owned())
            }
            End::Unguarded => (Outcome::Failed, None, "could not be run".to_owned()),
        };
        match outcome {
            Outcome::Done => self.say(&format!("{name} {text}")),
            _ => talk!("tenure: {name} {text}"),
        }
        let record = Record {
            outcome,
            ended_unix_ms: Some(host_now_ms()),
            exit_code: exit.map(Exit::code),
            attempts,
            ..claimed.record.clone()
        };
        self.finish(&claimed, record).await;
    }

    /// Remembers that it was not run.
    pub(super) async fn skip(self) {
        if let Err(error) = self.claim(Outcome::Skipped).await {
            talk!(
                "tenure: cannot note that {} for {} was skipped: {error:#}",
                self.job.name,
                self.slot
            );
        }
    }

    async fn claim(&self, outcome: Outcome) -> Result<Claim, SlotsError> {
        let record = Record {
            slot: self.slot.clone(),
            outcome,
            identity: self.terms.identity.clone(),
            token: self.terms.held.token().get(),
            started_unix_ms: host_now_ms(),
            ended_unix_ms: None,
            exit_code: None,
            attempts: 0,
        };
        loop {
            let claim =
                self.slots.claim(&self.terms.holder, record.clone(), self.job.delivery).await;
            let Err(SlotsError::Client(error)) = claim else { return claim };
            if self.is_lost() || *self.terms.stop.borrow() {
                return Err(error.into());
            }
            sleep(PAUSE).await;
        }
    }

    /// Writes the result, for as long as the session lasts.
    async fn finish(&self, claimed: &Claimed, record: Record) {
        while let Err(error) = self.slots.finish(claimed, record.clone()).await {
            if self.is_lost() {
                let name = &self.job.name;
                return talk!(
                    "tenure: the result of {name} for {} is not stored: {error:#}",
                    self.slot
                );
            }
            sleep(PAUSE).await;
        }
    }

    /// Starts the command once and follows it until all that it started is gone.
    async fn attempt(&self) -> End {
        let held = &self.terms.held;
        let mut until = held.deadline();
        let started = Guardian::start(crate::guardian::Job {
            // No session: guardians of other runs may still be at work when this one could report its end.
            charge: Charge::new(self.terms.grace, self.terms.ttl, Some(until)),
            command: &self.job.command,
            environment: self.environment(),
            reads: false,
        });
        let mut guardian = match started {
            Ok(guardian) => guardian,
            Err(error) => {
                talk!("tenure: cannot start {}: {error:#}", self.job.name);
                return End::Unguarded;
            }
        };
        let too_late = self.job.timeout.map(|timeout| Instant::now() + timeout);
        let mut stop = self.terms.stop.clone();
        let mut ended_by = None;
        loop {
            let runs = ended_by.is_none() && guardian.ending().is_none();
            let reason = tokio::select! {
                biased;
                news = guardian.news() => match news {
                    Some(News::Gone) => break,
                    Some(_) => continue,
                    // It was killed, and its command with it.
                    None => {
                        guardian.bury(Some(until)).await;
                        ended_by.get_or_insert(End::Unguarded);
                        break;
                    }
                },
                // What it does not know of it cannot have waited for: the tree is gone by now, or it stands still.
                () = Boottime.sleep_until(until) => {
                    guardian.bury(Some(until)).await;
                    ended_by.get_or_insert(End::Stopped(guardian.ending()));
                    break;
                }
                moved = held.deadline_moved(until) => {
                    if !self.is_lost() {
                        guardian.extend(moved).await;
                    }
                    until = moved;
                    continue;
                }
                _ = held.lost(), if runs => End::Stopped(None),
                _ = stop.wait_for(|stop| *stop), if runs => End::Stopped(None),
                () = overdue(too_late), if runs => End::TooLong,
            };
            ended_by = Some(reason);
            guardian.stop(Signal::TERM.as_raw()).await;
        }
        // All below it is gone, and there is no session to report.
        guardian.done().await;
        match (ended_by, guardian.ending()) {
            (None, Some(ending)) => End::By(ending),
            (Some(End::Stopped(_)), ending) => End::Stopped(ending),
            (Some(end), _) => end,
            (None, None) => End::Unguarded,
        }
    }

    fn environment(&self) -> Vec<(String, OsString)> {
        let ours = [
            ("TENURE_ELECTION", self.terms.held.name().to_string()),
            ("TENURE_IDENTITY", self.terms.identity.clone()),
            ("TENURE_TOKEN", self.terms.held.token().to_string()),
            ("TENURE_KEY", String::from_utf8_lossy(self.terms.holder.key()).into_owned()),
            ("TENURE_JOB", self.job.name.clone()),
            ("TENURE_JOB_SLOT", self.slot.clone()),
        ];
        let theirs = self.job.environment.iter().map(|(key, value)| (key.clone(), value.into()));
        ours.into_iter().map(|(key, value)| (key.to_owned(), value.into())).chain(theirs).collect()
    }

    fn is_lost(&self) -> bool {
        matches!(self.terms.held.state(), SessionState::Lost(_))
    }

    fn say(&self, text: &str) {
        if !self.terms.quiet {
            talk!("tenure: {text}");
        }
    }
}
