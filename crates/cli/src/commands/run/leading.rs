//! One tenure: from being elected until the command and everything it started is gone.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tenure::backend::Drain;
use tenure::clock::{Boottime, Clock, Moment};
use tenure::{Held, Loss, Session, SessionState};
use tokio::time::Instant;

use super::args::{OnDoubt, Restart};
use super::health::Role;
use super::marker::Marker;
use super::signals::Wish;
use super::supervisor::{After, FAREWELL, Supervisor, overdue};
use crate::exit::Exit;
use crate::guardian::{Ending, Guardian, News};
use crate::talk::talk;

/// Between two starts of a command that fails.
const RESTART_FIRST: Duration = Duration::from_millis(200);
const RESTART_MAX: Duration = Duration::from_secs(10);

/// Why the command was ended, if not by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    /// This process was asked to end.
    Asked,
    Lost(Loss),
    /// The lease was not confirmed in time.
    Doubt,
    Drain(Drain),
    Unhealthy,
    /// `--hold-at-most`.
    TooLong,
    /// The guardian is gone or does not answer, and the command with it.
    Unguarded,
    /// The same, before the command was started.
    NoStart,
}

/// How a command's life ended.
#[derive(Default)]
struct End {
    cause: Option<Cause>,
    ending: Option<Ending>,
    /// Waits to hear that the server knows of it.
    guardian: Option<Guardian>,
}

impl Supervisor {
    /// Leads until it is over.
    pub(super) async fn lead_once(
        &mut self,
        session: &Session,
        held: Held,
    ) -> anyhow::Result<After> {
        let since = Instant::now();
        let slot = self.slot.as_ref().map_or_else(String::new, |run| format!(" for {}", run.slot));
        self.say(&format!("{} {}{slot} with token {}", self.holding(), self.name(), held.token()));
        match self.cut_off_predecessors(&held).await {
            Ok(()) => {}
            Err(next) => return Ok(self.step_aside(session, held, next).await),
        }
        if let Err(next) = self.claim_slot(&held).await {
            let _ = tokio::time::timeout(FAREWELL, held.release()).await;
            return Ok(next);
        }
        let mut pause = RESTART_FIRST;
        let mut attempts = 0;
        let end = loop {
            let mut end = self.run_once(session, &held, since).await?;
            attempts += 1;
            let failed = end.cause.is_none() && end.ending != Some(Ending::Code(0));
            let retries = self.slot.as_ref().map_or(0, |run| run.retries);
            if !(failed && (self.how.restart == Restart::OnFailure || attempts <= retries)) {
                break end;
            }
            // The session goes on.
            if let Some(guardian) = &mut end.guardian {
                guardian.done().await;
            }
            self.say(&format!("{} failed, starting it again", self.command[0].display()));
            end.cause = self.pause(&held, pause).await;
            if end.cause.is_some() {
                break end;
            }
            pause = RESTART_MAX.min(pause * 2);
        };
        self.finish_slot(session, end.ending.map(Exit::of_ending), attempts).await;
        self.leave(session, held, end, since).await
    }

    /// Runs the command once, or takes over the one that runs already.
    async fn run_once(
        &mut self,
        session: &Session,
        held: &Held,
        since: Instant,
    ) -> anyhow::Result<End> {
        self.mark(session, held)?;
        let mut guardian = match self.running.take() {
            None => self.start_command(Some(session), Some(held))?,
            Some(mut running) => {
                if self.how.on_doubt == OnDoubt::Stop {
                    running.extend(held.deadline()).await;
                }
                if let Some(signal) = self.how.won {
                    running.tell(signal).await;
                }
                running
            }
        };
        let mut end = self.guard(held, &mut guardian, since).await;
        self.terminal.take_back();
        if end.cause == Some(Cause::Unguarded) {
            self.unmark(held);
            // One that never began is not a matter of bad luck: no memory, no processes, no watchdog.
            end.cause =
                Some(if guardian.has_started() { Cause::Unguarded } else { Cause::NoStart });
        }
        if matches!(end.cause, Some(Cause::Lost(_))) && self.how.on_doubt == OnDoubt::Continue {
            self.running = Some(guardian);
        } else {
            end.guardian = Some(guardian);
        }
        Ok(end)
    }

    fn mark(&self, session: &Session, held: &Held) -> anyhow::Result<()> {
        if let Some(path) = &self.how.marker {
            let marker = Marker {
                name: &self.name(),
                identity: &self.identity,
                token: held.token().get(),
                session: format!("{:x}", session.id().0),
                pid: std::process::id(),
            };
            marker.write(path)?;
        }
        Ok(())
    }

    /// Removes the marker that a guardian could not remove any more, if it is still ours.
    fn unmark(&self, held: &Held) {
        if let Some(path) = &self.how.marker {
            Marker::remove(path, held.token().get());
        }
    }

    /// Follows the command, and ends it when there is a reason, until the tree is gone.
    async fn guard(&mut self, held: &Held, guardian: &mut Guardian, since: Instant) -> End {
        let mut end = End::default();
        let mut until = held.deadline();
        // Up to when the guardian is known to be awake; with no deadline to tell it, nothing is known.
        let mut awake = (self.how.on_doubt == OnDoubt::Stop).then_some(until);
        let mut group = None;
        let too_late = self.how.hold_at_most.map(|most| since + most);
        let role = guardian.id().map_or(Role::Standby, Role::Leader);
        let health = Arc::clone(&self.health);
        let mut unhealthy = std::pin::pin!(health.unhealthy(role));
        loop {
            let runs = end.cause.is_none() && end.ending.is_none();
            let wanted = tokio::select! {
                // First what the guardian has to say: it may have said it long ago.
                biased;
                news = guardian.news() => match news {
                    Some(News::Gone) => return end,
                    Some(News::Heard(until)) => {
                        awake = awake.max(Some(until));
                        None
                    }
                    Some(news) => {
                        self.hear(news, guardian, &mut end, &mut group).await;
                        None
                    }
                    None => return bury("was killed", guardian, until, end).await,
                },
                // What it does not know of it cannot have waited for: the tree is gone by now, or it stands still.
                () = asleep(awake) => {
                    return bury("does not answer", guardian, awake.unwrap_or(until), end).await;
                }
                moved = held.deadline_moved(until) => {
                    self.extend(held, guardian, moved).await;
                    until = moved;
                    None
                }
                loss = held.lost(), if runs => {
                    talk!("tenure: lost {}: {loss}", self.name());
                    if self.how.on_doubt == OnDoubt::Continue {
                        self.tell_lost(guardian).await;
                        end.cause = Some(Cause::Lost(loss));
                        return end;
                    }
                    Some((Cause::Lost(loss), self.how.lost.unwrap_or(Signal::TERM.as_raw())))
                }
                drain = held.drain(), if runs => {
                    self.say(&format!("making room in {} for {}", self.name(), drain.successor));
                    Some((Cause::Drain(drain), self.how.lost.unwrap_or(Signal::TERM.as_raw())))
                }
                what = &mut unhealthy, if runs => {
                    talk!("tenure: giving up {}: {what}", self.name());
                    Some((Cause::Unhealthy, Signal::TERM.as_raw()))
                }
                () = overdue(too_late), if runs => {
                    talk!("tenure: ending {}: it ran too long", self.command[0].display());
                    Some((Cause::TooLong, Signal::TERM.as_raw()))
                }
                wish = self.signals.next() => self.wish(wish, guardian, &mut end, group).await,
            };
            if let Some((cause, signal)) = wanted {
                end.cause = Some(cause);
                guardian.stop(signal).await;
            }
        }
    }

    /// The lease was confirmed. Only what is surely still ours counts.
    async fn extend(&self, held: &Held, guardian: &mut Guardian, until: Moment) {
        if self.how.on_doubt == OnDoubt::Stop && !matches!(held.state(), SessionState::Lost(_)) {
            guardian.extend(until).await;
        }
    }

    async fn hear(
        &mut self,
        news: News,
        guardian: &mut Guardian,
        end: &mut End,
        group: &mut Option<i32>,
    ) {
        match news {
            News::Started(number) => *group = Some(number),
            News::Halted(signal) => self.halted(signal, guardian, *group).await,
            News::Doubt if end.cause.is_none() => {
                talk!("tenure: {} is not confirmed in time: ending the command", self.name());
                end.cause = Some(Cause::Doubt);
            }
            News::Unguarded if end.ending.is_none() => {
                talk!("tenure: a guardian was killed, and the command with it");
                end.cause.get_or_insert(Cause::Unguarded);
            }
            News::Ended(ending) => end.ending = Some(ending),
            News::Doubt | News::Unguarded | News::Heard(_) | News::Gone => {}
        }
    }

    /// The terminal stopped the command: it wants to read, or Ctrl-Z was pressed.
    async fn halted(&mut self, signal: i32, guardian: &mut Guardian, group: Option<i32>) {
        let wants_terminal = [Signal::TTIN, Signal::TTOU].map(Signal::as_raw).contains(&signal);
        let go_on = match (wants_terminal, group) {
            (true, Some(group)) => self.terminal.lend(group),
            // A leader that stands still leads nothing.
            _ => signal == Signal::TSTP.as_raw(),
        };
        if go_on {
            guardian.signal(Signal::CONT.as_raw()).await;
        }
    }

    async fn wish(
        &mut self,
        wish: Wish,
        guardian: &mut Guardian,
        end: &mut End,
        group: Option<i32>,
    ) -> Option<(Cause, i32)> {
        match wish {
            Wish::End(_) if end.cause == Some(Cause::Asked) => {
                talk!("tenure: killing the command");
                guardian.kill().await;
                None
            }
            Wish::End(signal) => {
                // Whatever it was ended for: now the end is ours as well.
                Some((Cause::Asked, signal))
            }
            Wish::Pass(signal) => {
                guardian.signal(signal).await;
                None
            }
            Wish::Suspend => {
                talk!("tenure: a leader cannot be suspended");
                None
            }
            Wish::GoOn => {
                if let Some(group) = group
                    && self.terminal.lend_if_wanted(group)
                {
                    guardian.signal(Signal::CONT.as_raw()).await;
                }
                None
            }
        }
    }

    async fn tell_lost(&self, guardian: &mut Guardian) {
        if let Some(signal) = self.how.lost {
            guardian.signal(signal).await;
        }
    }

    /// Waits, but not longer than we lead. Answers why that is over, if it is.
    async fn pause(&mut self, held: &Held, time: Duration) -> Option<Cause> {
        let asleep = tokio::time::sleep(time);
        tokio::pin!(asleep);
        loop {
            let cause = tokio::select! {
                () = &mut asleep => return None,
                loss = held.lost() => Cause::Lost(loss),
                drain = held.drain() => Cause::Drain(drain),
                wish = self.signals.next() => match wish {
                    Wish::End(_) => Cause::Asked,
                    _ => continue,
                },
            };
            return Some(cause);
        }
    }

    /// Everything is gone: gives up what is held, and says so.
    async fn leave(
        &mut self,
        session: &Session,
        held: Held,
        mut end: End,
        since: Instant,
    ) -> anyhow::Result<After> {
        let least = self.how.hold_at_least.unwrap_or_default();
        let left = least.saturating_sub(since.elapsed());
        if end.cause.is_none() && !left.is_zero() {
            if let Some(guardian) = &mut end.guardian {
                // It would wait for us no longer than the lease was sure when the command ended.
                guardian.done().await;
            }
            end.cause = self.pause(&held, left).await;
        }
        let code = end.ending.map_or(Exit::Error, Exit::of_ending);
        let next = match end.cause {
            None | Some(Cause::Asked) => After::Exit(code),
            Some(Cause::TooLong) => After::Exit(Exit::TimedOut),
            Some(Cause::NoStart) => After::Exit(Exit::Error),
            Some(_) if self.how.once => After::Exit(Exit::Lost),
            Some(_) => After::Again,
        };
        if self.works_on() {
            // The server must not be told that the work has ended.
            drop(held);
        } else if matches!(session.state(), SessionState::Lost(_)) {
            // It may be that no member can be told; the lease ends by itself then.
            tokio::spawn(held.release());
        } else {
            // A job that is run once has no successor.
            let is_asked = end.cause == Some(Cause::Asked) && self.slot.is_none();
            let queue = self.queue(session);
            let next = async {
                match is_asked && !self.how.quiet {
                    true => Some(queue.next().await),
                    false => None,
                }
            };
            let released = tokio::time::timeout(FAREWELL, held.release());
            let (released, next) = tokio::join!(released, next);
            if let Some(next) = next.filter(|_| released.is_ok()) {
                self.say(&format!("{} {}; {next}", self.gave_up(), self.name()));
            }
            // Otherwise the guardian goes on trying.
            if let (Ok(_), Some(guardian)) = (released, &mut end.guardian) {
                guardian.done().await;
            }
        }
        Ok(next)
    }
}

/// The guardian is of no use any more: ends it, and everything below.
async fn bury(what: &str, guardian: &mut Guardian, until: Moment, mut end: End) -> End {
    talk!("tenure: the guardian {what}; ending it and what it guarded");
    guardian.bury(Some(until)).await;
    // A command that had ended before has ended by itself.
    if end.ending.is_none() {
        end.cause.get_or_insert(Cause::Unguarded);
    }
    end
}

/// Waits for a moment that is always later while the guardian answers.
async fn asleep(awake: Option<Moment>) {
    match awake {
        Some(moment) => Boottime.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
