//! A command that is run for a slot of a job: once for all hosts.

use std::time::Duration;

use tenure::fence::GuardedError;
use tenure::{Held, Session, SessionState};

use super::supervisor::{After, Supervisor};
use crate::exit::Exit;
use crate::jobs::{Claim, Claimed, Delivery, Outcome, Record, Slots, SlotsError, host_now_ms};
use crate::output::visible;
use crate::talk::talk;

/// Between attempts to watch a slot.
const WATCH_PAUSE: Duration = Duration::from_secs(1);
/// Between attempts to claim a slot, or to write what came of it.
const SLOT_PAUSE: Duration = Duration::from_millis(200);

/// The slot that a command is run for.
#[derive(Clone)]
pub(in crate::commands) struct SlotRun {
    pub(in crate::commands) slots: Slots,
    pub(in crate::commands) slot: String,
    pub(in crate::commands) delivery: Delivery,
    /// How often the command is started again when it fails.
    pub(in crate::commands) retries: u32,
    /// The exit code if another process has the slot.
    pub(in crate::commands) taken: Exit,
    /// Absent until it is ours.
    pub(in crate::commands) claimed: Option<Claimed>,
}

impl SlotRun {
    /// Waits until another process has settled the slot; for ever, if there is none.
    pub(super) async fn settled(run: Option<SlotRun>) -> Record {
        let Some(run) = run else { return std::future::pending().await };
        loop {
            match run.slots.settled(&run.slot, run.delivery).await {
                Ok(record) => return record,
                // A candidate that is elected finds out, too.
                Err(_) => tokio::time::sleep(WATCH_PAUSE).await,
            }
        }
    }

    /// What is said of a slot that another process has.
    pub(super) fn describe(&self, job: &str, record: &Record, is_over: bool) -> String {
        let by = format!("{} (token {})", visible(&record.identity), record.token);
        let what = match (record.outcome, record.exit_code) {
            (Outcome::Running, _) if is_over => format!("was begun by {by} and did not finish"),
            (Outcome::Running, _) => format!("is run by {by}"),
            (Outcome::Done, _) => format!("was run by {by}"),
            (Outcome::Failed, Some(code)) => {
                format!("was run by {by} and failed with exit code {code}")
            }
            (Outcome::Failed, None) => format!("was run by {by} and was ended before it was done"),
            (Outcome::Skipped, _) => format!("was skipped by {by}"),
        };
        format!("{job} for {} {what}", self.slot)
    }
}

impl Supervisor {
    /// Whether the slot is settled already, and the exit code then.
    pub(in crate::commands) async fn settled_already(&self) -> anyhow::Result<Option<Exit>> {
        let Some(run) = &self.slot else { return Ok(None) };
        let found = run.slots.read(&run.slot).await?;
        Ok(found
            .filter(|found| found.settles(run.delivery))
            .map(|found| self.slot_taken(&found, false)))
    }

    /// Says what another process did with our slot.
    pub(super) fn slot_taken(&self, record: &Record, is_over: bool) -> Exit {
        let Some(run) = &self.slot else { return Exit::Done };
        self.say(&run.describe(&self.name(), record, is_over));
        run.taken
    }

    /// Claims the slot, if the command is run for one. The error is what comes next, if it may not be run.
    pub(super) async fn claim_slot(&mut self, held: &Held) -> Result<(), After> {
        let identity = self.identity.clone();
        let name = self.name();
        let Some(run) = &mut self.slot else { return Ok(()) };
        let holder = held.holder_key();
        let record = Record {
            slot: run.slot.clone(),
            outcome: Outcome::Running,
            identity,
            token: held.token().get(),
            started_unix_ms: host_now_ms(),
            ended_unix_ms: None,
            exit_code: None,
            attempts: 0,
        };
        match run.slots.claim(&holder, record, run.delivery).await {
            Ok(Claim::Ours(claimed)) => {
                run.claimed = Some(*claimed);
                Ok(())
            }
            // Its process held the lock before us, and holds it no more.
            Ok(Claim::Taken(record)) => Err(After::Exit(self.slot_taken(&record, true))),
            Err(SlotsError::Guarded(GuardedError::Deposed { .. })) => Err(After::Again),
            Err(error) => {
                talk!("tenure: cannot claim {name} for {}: {error:#}", run.slot);
                tokio::time::sleep(SLOT_PAUSE).await;
                Err(After::Again)
            }
        }
    }

    /// Writes what came of the slot. Tried for as long as the session lasts: a result that is not written would be
    /// taken for a run that did not finish.
    pub(super) async fn finish_slot(
        &mut self,
        session: &Session,
        exit: Option<Exit>,
        attempts: u32,
    ) {
        let name = self.name();
        let Some(run) = &mut self.slot else { return };
        let Some(claimed) = run.claimed.take() else { return };
        let record = Record {
            outcome: if exit.is_some_and(|exit| exit.code() == 0) {
                Outcome::Done
            } else {
                Outcome::Failed
            },
            ended_unix_ms: Some(host_now_ms()),
            exit_code: exit.map(Exit::code),
            attempts,
            ..claimed.record.clone()
        };
        loop {
            let error = match run.slots.finish(&claimed, record.clone()).await {
                Ok(_) => return,
                Err(error) => error,
            };
            if matches!(session.state(), SessionState::Lost(_)) {
                talk!("tenure: the result of {name} for {} is not stored: {error:#}", run.slot);
                return;
            }
            tokio::time::sleep(SLOT_PAUSE).await;
        }
    }
}
