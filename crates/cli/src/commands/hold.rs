//! Holding without a command: `tenure elect NAME` and `tenure lock NAME` say their token, and hold until interrupted.
//!
//! A policy on the library's loop ([`tenure::leading`]). What ends with its session is campaigned for again with
//! another one: a server that restarts costs a tenure at most, and the new token is said like the first. What an
//! operator or another candidate has taken away ends the command, because that was a decision.

use std::ops::ControlFlow;
use std::time::Duration;

use tenure::backend::JoinSpec;
use tenure::leading::{self, Next, Parting, Policy, Turn};
use tenure::{AcquireError, Held, Loss, Session, SessionError, SessionOptions};

use super::opening::SessionOpening;
use super::queue::Queue;
use super::run::signals::{Signals, Wish};
use crate::args::Settings;
use crate::exit::Exit;
use crate::output::visible;
use crate::talk::{clear_status, talk};

/// How long the end of a session may take when there is nothing else to do.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long a slow terminal is waited for.
const STATUS_PATIENCE: Duration = Duration::from_millis(500);

/// What is to be held, and how.
pub(in crate::commands) struct Holding<Announce> {
    pub(in crate::commands) join: JoinSpec,
    pub(in crate::commands) options: SessionOptions,
    /// Whether the first server is waited for.
    pub(in crate::commands) waits: bool,
    /// Wait no longer than this to hold it.
    pub(in crate::commands) timeout: Option<Duration>,
    /// Exit when it is lost, whatever the reason.
    pub(in crate::commands) once: bool,
    /// The exit code if it is held by others.
    pub(in crate::commands) conflict: Exit,
    /// What giving it up is called: `resigned`, `released`.
    pub(in crate::commands) gave_up: &'static str,
    /// Says on stdout that it is held, each time anew.
    pub(in crate::commands) announce: Announce,
}

impl<Announce: FnMut(&Held) -> anyhow::Result<()>> Holding<Announce> {
    /// Holds it until interrupted, or until it is taken away.
    pub(in crate::commands) async fn run(self, settings: &Settings) -> anyhow::Result<Exit> {
        let opening = SessionOpening::new(self.waits);
        let settings = settings.clone();
        let mut holder = Holder { opening, signals: Signals::listen()?, holding: self, settings };
        let engine = holder.settings.engine();
        leading::lead(&engine, &mut holder).await
    }
}

struct Holder<Announce> {
    holding: Holding<Announce>,
    signals: Signals,
    opening: SessionOpening,
    settings: Settings,
}

type Ended = anyhow::Result<Exit>;

impl<Announce: FnMut(&Held) -> anyhow::Result<()>> Policy for Holder<Announce> {
    type Held = Held;
    type End = Ended;

    fn options(&self) -> SessionOptions {
        self.holding.options.clone()
    }

    async fn interrupted(&mut self) -> Ended {
        Ok(interrupted(&mut self.signals).await)
    }

    async fn no_session(&mut self, error: SessionError) -> ControlFlow<Ended> {
        let pause = match self.opening.failed(error) {
            Ok(pause) => pause,
            Err(error) => return ControlFlow::Break(Err(error)),
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => ControlFlow::Continue(()),
            exit = interrupted(&mut self.signals) => ControlFlow::Break(Ok(exit)),
        }
    }

    fn opened(&mut self, _: &Session) {
        self.opening.succeeded();
    }

    async fn campaign(&mut self, session: &Session) -> Turn<Held, Ended> {
        let holding = &self.holding;
        let waiting = session.join(holding.join.clone(), holding.timeout);
        let name = holding.join.first_name();
        let queue = Queue::new(&self.settings, name.to_string(), session);
        let held = tokio::select! {
            held = waiting => held,
            never = queue.follow() => match never {},
            exit = interrupted(&mut self.signals) => {
                talk!("tenure: not waiting for {name} any more: {}", queue.next().await);
                return Turn::Passed(end(exit));
            }
        };
        Turn::Passed(match held {
            Ok(held) => return Turn::Elected(held),
            Err(AcquireError::Taken { name } | AcquireError::TimedOut { name, .. }) => {
                talk!("tenure: {name} is held by another candidate");
                end(holding.conflict)
            }
            Err(AcquireError::SessionOver { name, loss }) => {
                talk!("tenure: waiting for {name}: {loss}; a candidate again");
                Next::Reopen(Parting::Close)
            }
            Err(error) => Next::End(Err(error.into()), Parting::Close),
        })
    }

    async fn lead(&mut self, session: &Session, held: Held) -> Next<Ended> {
        clear_status(STATUS_PATIENCE);
        if let Err(error) = (self.holding.announce)(&held) {
            return Next::End(Err(error), Parting::Close);
        }
        let name = held.name().clone();
        let mut is_asked = false;
        let exit = tokio::select! {
            // Whether those that were told of the token have stopped is unknown: the servers must not hear that they have.
            loss = held.lost() => {
                if self.holding.once || !ended_by_itself(loss) {
                    talk!("tenure: lost {name}: {loss}");
                    return Next::End(Ok(Exit::Lost), Parting::Drop);
                }
                talk!("tenure: lost {name}: {loss}; a candidate again");
                return Next::Reopen(Parting::Drop);
            }
            drain = held.drain() => {
                talk!("tenure: making room in {name} for {}", visible(&drain.successor));
                Exit::Done
            }
            _ = interrupted(&mut self.signals) => {
                is_asked = true;
                Exit::Done
            }
        };
        let queue = Queue::new(&self.settings, name.to_string(), session);
        // If no member can be told, the lease ends by itself.
        let released = tokio::time::timeout(FAREWELL, held.release());
        let next = async {
            match is_asked {
                true => Some(queue.next().await),
                false => None,
            }
        };
        let (released, next) = tokio::join!(released, next);
        if let Some(next) = next.filter(|_| released.is_ok()) {
            talk!("tenure: {} {name}; {next}", self.holding.gave_up);
        }
        end(exit)
    }
}

fn end(exit: Exit) -> Next<Ended> {
    Next::End(Ok(exit), Parting::CloseWithin(FAREWELL))
}

/// Whether it ended with a session that ran out, rather than by a decision of an operator or another candidate.
fn ended_by_itself(loss: Loss) -> bool {
    matches!(
        loss,
        Loss::Unconfirmed
            | Loss::Expired
            | Loss::ConnectionLost
            | Loss::NotFound
            | Loss::KeeperGone
    )
}

/// Is done when a signal ends this process.
async fn interrupted(signals: &mut Signals) -> Exit {
    loop {
        match signals.next().await {
            Wish::End(signal) => return Exit::Signal(u8::try_from(signal).unwrap_or(0)),
            // The terminal is gone, and there is no command that could want to know.
            Wish::Pass(signal) if signal == rustix::process::Signal::HUP.as_raw() => {
                return Exit::Signal(u8::try_from(signal).unwrap_or(0));
            }
            Wish::Pass(_) | Wish::Suspend | Wish::GoOn => {}
        }
    }
}
