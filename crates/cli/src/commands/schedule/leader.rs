//! What the library's loop ([`tenure::leading`]) does here: campaign, lead, begin again.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tenure::backend::{JoinSpec, Mode};
use tenure::leading::{self, Next, Parting, Policy, Turn};
use tenure::{AcquireError, Held, Session, SessionError, SessionOptions, SessionState};
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

use super::args::Schedule;
use super::file::File;
use super::run::Terms;
use super::tenure::{Over, Tenure};
use crate::args::Settings;
use crate::commands::run::{Signals, Wish, check_grace, usual_grace};
use crate::exit::Exit;
use crate::talk::talk;

const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long giving up the lead may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs the jobs of a file while it leads.
pub(super) struct Leader {
    file: File,
    settings: Settings,
    options: SessionOptions,
    priority: u32,
    /// Whether the first session may be long in coming.
    waits: bool,
    grace: Duration,
    quiet: bool,
    signals: Signals,
    pause: Duration,
    /// The last failure that was told.
    told: String,
}

impl Leader {
    pub(super) fn new(file: File, args: &Schedule, settings: Settings) -> anyhow::Result<Leader> {
        let grace = args.grace.unwrap_or_else(|| usual_grace(args.ttl));
        check_grace(args.ttl, grace)?;
        Ok(Leader {
            file,
            settings,
            options: args.candidate.session(args.ttl),
            priority: args.candidate.priority,
            waits: args.candidate.wait_for_server.unwrap_or(true),
            grace,
            quiet: args.quiet,
            signals: Signals::listen()?,
            pause: PAUSE_FIRST,
            told: String::new(),
        })
    }

    /// Leads whenever it can, until it is asked to end.
    pub(super) async fn lead(mut self) -> anyhow::Result<Exit> {
        let engine = self.settings.engine();
        leading::lead(&engine, &mut self).await
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            talk!("tenure: {text}");
        }
    }

    /// Says that something failed, unless it was said last, and waits, longer each time.
    async fn failed(&mut self, failure: String) -> ControlFlow<()> {
        if failure != self.told {
            talk!("tenure: {failure}; trying again");
            self.told = failure;
        }
        let pause = self.pause;
        self.pause = PAUSE_MAX.min(pause * 2);
        tokio::select! {
            () = sleep(pause) => ControlFlow::Continue(()),
            () = asked(&mut self.signals) => ControlFlow::Break(()),
        }
    }
}

/// Waits until this process is asked to end.
async fn asked(signals: &mut Signals) {
    while !matches!(signals.next().await, Wish::End(_)) {}
}

impl Policy for Leader {
    type Held = Held;
    type End = anyhow::Result<Exit>;

    fn options(&self) -> SessionOptions {
        self.options.clone()
    }

    async fn interrupted(&mut self) -> Self::End {
        asked(&mut self.signals).await;
        Ok(Exit::Done)
    }

    /// A scheduler is started with its machine: the servers may come later.
    async fn no_session(&mut self, error: SessionError) -> ControlFlow<Self::End> {
        if !self.waits {
            return ControlFlow::Break(Err(error.into()));
        }
        let failure = format!("no session: {:#}", anyhow::Error::from(error));
        match self.failed(failure).await {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(()) => ControlFlow::Break(Ok(Exit::Done)),
        }
    }

    fn opened(&mut self, _: &Session) {
        (self.pause, self.told, self.waits) = (PAUSE_FIRST, String::new(), true);
    }

    async fn campaign(&mut self, session: &Session) -> Turn<Held, Self::End> {
        // Not before the jobs of the last leader have surely ended.
        let join = JoinSpec {
            no_overlap: true,
            priority: self.priority,
            ..JoinSpec::one(self.file.election.clone(), Mode::Exclusive)
        };
        let ends = Next::End(Ok(Exit::Done), Parting::CloseWithin(FAREWELL));
        self.say(&format!("waiting to lead {}", self.file.election));
        let won = tokio::select! {
            won = session.join(join, None) => won,
            () = asked(&mut self.signals) => return Turn::Passed(ends),
        };
        match won {
            Ok(held) => Turn::Elected(held),
            Err(AcquireError::SessionOver { loss, .. }) => {
                self.say(&format!("waiting for {}: {loss}", self.file.election));
                Turn::Passed(Next::Reopen(Parting::Close))
            }
            Err(error) => {
                let failure = format!("{:#}", anyhow::Error::from(error));
                match self.failed(failure).await {
                    ControlFlow::Continue(()) => Turn::Passed(Next::Campaign),
                    ControlFlow::Break(()) => Turn::Passed(ends),
                }
            }
        }
    }

    async fn lead(&mut self, _: &Session, held: Held) -> Next<Self::End> {
        let (name, token) = (held.name().clone(), held.token());
        self.say(&format!("leading {name} with token {token}: {} jobs", self.file.jobs.len()));
        let held = Arc::new(held);
        let (stop, stopped) = watch::channel(false);
        let terms = Arc::new(Terms {
            holder: held.holder_key(),
            held: Arc::clone(&held),
            identity: self.options.identity.clone(),
            ttl: self.options.ttl,
            grace: self.grace,
            stop: stopped,
            quiet: self.quiet,
        });
        let tenure = Tenure { client: self.settings.client(), file: &self.file, terms, stop };
        // A deadline is followed by one thread.
        let over = LocalSet::new().run_until(tenure.pass(&mut self.signals)).await;
        // All runs have ended, and with them all other owners of it.
        let lasts = !matches!(held.state(), SessionState::Lost(_));
        if let (true, Some(held)) = (lasts, Arc::into_inner(held)) {
            let _ = timeout(FAREWELL, held.release()).await;
            self.say(&format!("gave up {name}"));
        }
        match over {
            Over::Asked => Next::End(Ok(Exit::Done), Parting::CloseWithin(FAREWELL)),
            Over::Replaced => Next::Reopen(Parting::Close),
        }
    }
}
