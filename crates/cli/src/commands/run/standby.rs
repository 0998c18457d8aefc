//! Waiting for our turn.

use std::sync::Arc;
use std::time::Duration;

use tenure::{AcquireError, Session};

use super::health::Role;
use super::slot::SlotRun;
use super::supervisor::{Stood, Supervisor, ended, follow, overdue};
use crate::exit::Exit;
use crate::guardian::{Charge, Guardian, Job};

/// A frozen name is asked for again after this.
const FROZEN_PAUSE: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Waits as a candidate until it is elected. A process that is not well does not.
    pub(super) async fn stand_by(&mut self, session: &Session) -> anyhow::Result<Stood> {
        let mut standby = self.start_standby_command()?;
        let stood = loop {
            if let Some(stood) = self.be_well(session).await {
                break stood;
            }
            if let Some(stood) = self.wait_as_candidate(session).await? {
                break stood;
            }
        };
        if let Some(guardian) = &mut standby {
            guardian.stop(rustix::process::Signal::TERM.as_raw()).await;
            follow(guardian, None).await;
        }
        Ok(stood)
    }

    fn start_standby_command(&self) -> anyhow::Result<Option<Guardian>> {
        let Some(command) = &self.how.standby_cmd else { return Ok(None) };
        let command = ["sh".into(), "-c".into(), command.into()];
        let charge = Charge {
            new_privileges: self.how.allow_new_privileges,
            ..Charge::new(self.how.grace(), self.how.ttl, None)
        };
        let environment = vec![("TENURE_ELECTION".to_owned(), self.name().into())];
        Guardian::start(Job { charge, command: &command, environment, reads: false }).map(Some)
    }

    /// Waits until all is well.
    async fn be_well(&mut self, session: &Session) -> Option<Stood> {
        let Err(what) = self.health.look(Role::Standby).await else { return None };
        self.say(&format!("no candidate for {}: {what}", self.name()));
        if self.how.nonblock {
            return Some(Stood::Exit(self.how.conflict()));
        }
        let health = Arc::clone(&self.health);
        let mut healthy = std::pin::pin!(health.healthy());
        loop {
            tokio::select! {
                () = &mut healthy => return None,
                _ = session.lost() => return Some(Stood::Over),
                exit = ended(&mut self.running) => return Some(Stood::Exit(exit)),
                () = overdue(self.give_up) => return Some(Stood::Exit(self.how.conflict())),
                wish = self.signals.next() => if let Some(exit) = self.asked(wish).await {
                    return Some(Stood::Exit(exit));
                },
            }
        }
    }

    /// Waits as a candidate. Returns `None` if that is to be tried again. A candidate that is not well stays one, and
    /// is passed over.
    async fn wait_as_candidate(&mut self, session: &Session) -> anyhow::Result<Option<Stood>> {
        let mut waiting = std::pin::pin!(session.join(self.join.clone(), None));
        let queue = self.queue(session);
        let is_quiet = self.how.quiet;
        let mut follow = std::pin::pin!(async {
            match is_quiet {
                true => std::future::pending().await,
                false => queue.follow().await,
            }
        });
        let health = Arc::clone(&self.health);
        let mut unhealthy = std::pin::pin!(health.unhealthy(Role::Standby));
        let mut healthy = std::pin::pin!(health.healthy());
        let mut settled = std::pin::pin!(SlotRun::settled(self.slot.clone()));
        let mut well = true;
        loop {
            tokio::select! {
                held = &mut waiting => return self.turn(held).await,
                never = &mut follow => match never {},
                () = overdue(self.give_up) => return Ok(Some(Stood::Exit(self.not_taken()))),
                record = &mut settled => {
                    return Ok(Some(Stood::Exit(self.slot_taken(&record, false))));
                }
                what = &mut unhealthy, if well => {
                    well = false;
                    self.say(&format!("to be passed over in {}: {what}", self.name()));
                    self.report(session, false).await;
                }
                () = &mut healthy, if !well => {
                    well = true;
                    self.report(session, true).await;
                    unhealthy.set(health.unhealthy(Role::Standby));
                    healthy.set(health.healthy());
                }
                exit = ended(&mut self.running) => return Ok(Some(Stood::Exit(exit))),
                wish = self.signals.next() => if let Some(exit) = self.asked(wish).await {
                    self.say(&format!("not waiting for {} any more: {}", self.name(), queue.next().await));
                    return Ok(Some(Stood::Exit(exit)));
                },
            }
        }
    }

    /// What waiting came to; nothing, if it is to be tried again.
    async fn turn(
        &self,
        held: Result<tenure::Held, AcquireError>,
    ) -> anyhow::Result<Option<Stood>> {
        match held {
            Ok(held) => Ok(Some(Stood::Held(Box::new(held)))),
            Err(AcquireError::Taken { .. }) => Ok(Some(Stood::Exit(self.not_taken()))),
            Err(AcquireError::SessionOver { loss, .. }) => {
                self.say(&format!("not a candidate for {} any more: {loss}", self.name()));
                Ok(Some(Stood::Over))
            }
            // The session lives: it can become a candidate again, behind the others.
            Err(error @ AcquireError::CandidacyLost { .. }) => {
                self.say(&error.to_string());
                Ok(None)
            }
            Err(AcquireError::Frozen { .. }) if self.how.nonblock => {
                Ok(Some(Stood::Exit(self.not_taken())))
            }
            Err(AcquireError::Frozen { .. }) => {
                tokio::time::sleep(FROZEN_PAUSE).await;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Says whether we are fit to lead. A server that cannot be told will hear of our absence.
    async fn report(&self, session: &Session, healthy: bool) {
        if let Err(error) = session.report_health(&self.join.first_name(), healthy).await {
            self.say(&format!("cannot report on our health: {error}"));
        }
    }

    fn not_taken(&self) -> Exit {
        self.say(&format!("{} is held by others", self.name()));
        self.how.conflict()
    }
}
