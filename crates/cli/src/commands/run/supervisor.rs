//! What the library's loop ([`tenure::leading`]) does here: stand by, lead, begin again with another session.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure::backend::{JoinSpec, Mode};
use tenure::clock::Moment;
use tenure::leading::{self, Next, Parting, Policy, Turn};
use tenure::{Held, Session, SessionError, SessionOptions};
use tokio::time::Instant;

use super::args::{How, OnDoubt};
use super::health::Health;
use super::signals::{Signals, Wish};
use super::slot::SlotRun;
use super::stonith::Stonith;
use super::terminal::Terminal;
use crate::args::{Settings, TlsFiles};
use crate::commands::opening::SessionOpening;
use crate::commands::queue::Queue;
use crate::exit::Exit;
use crate::guardian::{
    Charge, Guardian, Job, News, SessionCharge, SessionSecretBytes, UserCharge, WatchdogCharge,
};
use crate::talk::talk;

/// How long the end of a session may take when there is nothing else to do.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// Runs a command while leading.
pub(in crate::commands) struct Supervisor {
    pub(super) join: JoinSpec,
    pub(super) how: How,
    pub(super) command: Vec<OsString>,
    pub(super) settings: Settings,
    pub(super) identity: String,
    pub(super) signals: Signals,
    pub(super) health: Arc<Health>,
    pub(super) stonith: Option<Stonith>,
    pub(super) terminal: Terminal,
    /// The command, where it runs already while waiting: `--won`, `--on-doubt continue`.
    pub(super) running: Option<Guardian>,
    /// The slot that the command is run for, if it is to be run once for all hosts.
    pub(super) slot: Option<SlotRun>,
    /// When to stop waiting.
    pub(super) give_up: Option<Instant>,
    /// The server must not be told that this session's tenure has ended well.
    pub(super) is_unsure: bool,
    pub(super) opening: SessionOpening,
}

/// What the loop comes to.
pub(super) type Ended = anyhow::Result<Exit>;

/// What comes after a tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The end.
    Exit(Exit),
    /// Campaign again.
    Again,
}

/// What standing by came to.
pub(super) enum Stood {
    /// Our turn.
    Held(Box<Held>),
    /// The end.
    Exit(Exit),
    /// The session is over.
    Over,
}

impl Supervisor {
    pub(in crate::commands) fn new(
        mut join: JoinSpec,
        how: How,
        command: Vec<OsString>,
        settings: Settings,
        waits: bool,
    ) -> anyhow::Result<Supervisor> {
        how.validate()?;
        how.apply_to(&mut join);
        let identity = how.candidate.session(how.ttl).identity;
        Ok(Supervisor {
            join,
            command,
            settings,
            identity,
            signals: Signals::listen()?,
            health: Arc::new(Health::new(&how.health)?),
            stonith: Stonith::new(&how.fence),
            terminal: Terminal::default(),
            running: None,
            slot: None,
            give_up: how.timeout.map(|time| Instant::now() + time),
            is_unsure: false,
            opening: SessionOpening::new(
                how.candidate.wait_for_server.unwrap_or(waits && !how.nonblock),
            ),
            how,
        })
    }

    /// The same, once for all that run it for this slot.
    pub(in crate::commands) fn for_slot(self, slot: SlotRun) -> Supervisor {
        Supervisor { slot: Some(slot), ..self }
    }

    /// From the first attempt to the end.
    pub(in crate::commands) async fn supervise(mut self) -> anyhow::Result<Exit> {
        if let Some(exit) = missing(&self.command[0]) {
            talk!(
                "tenure: {}: {}",
                self.command[0].display(),
                if exit == Exit::NotFound { "command not found" } else { "not executable" }
            );
            return Ok(exit);
        }
        let engine = self.settings.engine();
        leading::lead(&engine, &mut self).await
    }

    /// Ends the loop: what runs without being led first, then the session.
    async fn end(&mut self, exit: Exit) -> Next<Ended> {
        self.end_running().await;
        let parting = if self.is_unsure { Parting::Drop } else { Parting::CloseWithin(FAREWELL) };
        Next::End(Ok(exit), parting)
    }

    /// What the loop does after a tenure, or after standing by.
    async fn decide(&mut self, after: anyhow::Result<After>) -> Next<Ended> {
        // Each wait has the whole time.
        self.give_up = self.how.timeout.map(|time| Instant::now() + time);
        match after {
            Ok(After::Exit(exit)) => self.end(exit).await,
            // A session that was led with, or is lost, is not used again: a guardian may still be about to
            // tell the server that it has ended.
            Ok(After::Again) if self.works_on() || std::mem::take(&mut self.is_unsure) => {
                Next::Reopen(Parting::Drop)
            }
            Ok(After::Again) => Next::Reopen(Parting::Close),
            // Whether all has ended is unknown.
            Err(error) => Next::End(Err(error), Parting::Drop),
        }
    }

    /// What a signal means while nothing is led. Answers the exit code, if it ends us.
    pub(super) async fn asked(&mut self, wish: Wish) -> Option<Exit> {
        match (wish, &mut self.running) {
            (Wish::End(signal), None) => Some(Exit::Signal(u8::try_from(signal).unwrap_or(0))),
            (Wish::End(signal), Some(running)) => {
                running.stop(signal).await;
                Some(ended(&mut self.running).await)
            }
            (Wish::Pass(signal), Some(running)) => {
                running.signal(signal).await;
                None
            }
            // The terminal is gone, and nothing runs that could want to know.
            (Wish::Pass(signal), None) if signal == rustix::process::Signal::HUP.as_raw() => {
                Some(Exit::Signal(u8::try_from(signal).unwrap_or(0)))
            }
            (Wish::Pass(_) | Wish::Suspend | Wish::GoOn, _) => None,
        }
    }

    /// Starts the command below a guardian, under a lease if there is one.
    pub(super) fn start_command(
        &self,
        session: Option<&Session>,
        held: Option<&Held>,
    ) -> anyhow::Result<Guardian> {
        let stops = self.how.on_doubt == OnDoubt::Stop;
        let until = held.filter(|_| stops).map(Held::deadline);
        let watchdog = self.how.watchdog.clone().zip(self.how.watchdog_timeout());
        Guardian::start(Job {
            charge: Charge {
                session: session.map(|session| self.session_charge(session)),
                marker: self.how.marker.clone(),
                watchdog: watchdog.map(|(device, timeout)| WatchdogCharge::new(device, timeout)),
                new_privileges: self.how.allow_new_privileges,
                ..Charge::new(self.how.grace(), self.how.ttl, until)
            },
            command: &self.command,
            environment: self.environment(session, held),
            reads: true,
        })
    }

    fn session_charge(&self, session: &Session) -> SessionCharge {
        let user = self.settings.options.credentials.as_ref();
        SessionCharge {
            id: session.id().0,
            secret: SessionSecretBytes(session.secret().0.into()),
            ttl_ms: u64::try_from(session.ttl().as_millis()).unwrap_or(u64::MAX),
            endpoints: self.endpoints(),
            user: user.map(UserCharge::new),
            tls: self.settings.tls.clone(),
        }
    }

    fn endpoints(&self) -> String {
        let endpoints = self.settings.endpoints.iter().map(ToString::to_string);
        endpoints.collect::<Vec<_>>().join(",")
    }

    /// What the command finds in its environment.
    fn environment(
        &self,
        session: Option<&Session>,
        held: Option<&Held>,
    ) -> Vec<(String, OsString)> {
        let name = self.name();
        let mut environment: Vec<(&'static str, OsString)> = vec![
            ("TENURE_ELECTION", name.clone().into()),
            ("TENURE_IDENTITY", self.identity.clone().into()),
            ("TENURE_ENDPOINTS", self.endpoints().into()),
        ];
        environment.extend(self.settings.tls.iter().flat_map(TlsFiles::environment));
        environment.extend(self.settings.user.environment());
        if let Some(held) = held {
            environment.push(("TENURE_TOKEN", held.token().get().to_string().into()));
            if let Some(slot) = held.slot() {
                environment.push(("TENURE_SLOT", slot.to_string().into()));
            }
        }
        if let Some(run) = &self.slot {
            environment.push(("TENURE_JOB_SLOT", run.slot.clone().into()));
        }
        if let Some(session) = session {
            let key = format!("{name}/{:x}", session.id().0);
            environment.push(("TENURE_KEY", key.into()));
        }
        if let Some(marker) = &self.how.marker {
            environment.push(("TENURE_MARKER", marker.into()));
        }
        environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// `--timeout` has passed before there was a server to wait at.
    fn no_server(&self) -> Exit {
        self.say(&format!("no server to ask for {} in time", self.name()));
        self.how.conflict()
    }

    /// Whether the command goes on, by choice, though the lead is not confirmed.
    pub(super) fn works_on(&self) -> bool {
        self.running.is_some() && self.how.on_doubt == OnDoubt::Continue
    }

    /// Ends what runs without being led, if it does.
    async fn end_running(&mut self) {
        if let Some(running) = &mut self.running {
            running.stop(rustix::process::Signal::TERM.as_raw()).await;
            ended(&mut self.running).await;
        }
    }

    /// The election, as this candidate sees it.
    pub(super) fn queue(&self, session: &Session) -> Queue {
        Queue::new(&self.settings, self.name(), session)
    }

    pub(super) fn name(&self) -> String {
        self.join.first_name().to_string()
    }

    /// What is said when it is ours.
    pub(super) fn holding(&self) -> &'static str {
        match self.join.mode {
            Mode::Exclusive if self.slot.is_some() => "running",
            Mode::Exclusive => "leading",
            Mode::Shared | Mode::Permit(_) => "holding",
        }
    }

    /// What is said when it is given up on purpose.
    pub(super) fn gave_up(&self) -> &'static str {
        match self.join.mode {
            Mode::Exclusive => "resigned",
            Mode::Shared | Mode::Permit(_) => "released",
        }
    }

    /// Talk, unless `--quiet`.
    pub(super) fn say(&self, text: &str) {
        if !self.how.quiet {
            talk!("tenure: {text}");
        }
    }
}

impl Policy for Supervisor {
    type Held = Box<Held>;
    type End = Ended;

    fn options(&self) -> SessionOptions {
        self.how.candidate.session(self.how.ttl)
    }

    async fn no_session(&mut self, error: SessionError) -> ControlFlow<Ended> {
        let pause = match self.opening.failed(error) {
            Ok(pause) => pause,
            Err(error) => return ControlFlow::Break(Err(error)),
        };
        let exit = tokio::select! {
            () = overdue(self.give_up), if self.opening.is_first() => Some(self.no_server()),
            () = tokio::time::sleep(pause) => None,
            exit = ended(&mut self.running) => Some(exit),
            wish = self.signals.next() => self.asked(wish).await,
        };
        let Some(exit) = exit else { return ControlFlow::Continue(()) };
        self.end_running().await;
        ControlFlow::Break(Ok(exit))
    }

    fn opened(&mut self, _: &Session) {
        self.opening.succeeded();
    }

    async fn campaign(&mut self, session: &Session) -> Turn<Box<Held>, Ended> {
        if self.how.won.is_some() && self.running.is_none() {
            match self.start_command(None, None) {
                Ok(running) => self.running = Some(running),
                Err(error) => return Turn::Passed(self.decide(Err(error)).await),
            }
        }
        let after = match self.stand_by(session).await {
            Ok(Stood::Held(held)) => return Turn::Elected(held),
            Ok(Stood::Exit(exit)) => Ok(After::Exit(exit)),
            Ok(Stood::Over) => Ok(After::Again),
            Err(error) => Err(error),
        };
        Turn::Passed(self.decide(after).await)
    }

    async fn lead(&mut self, session: &Session, held: Box<Held>) -> Next<Ended> {
        let after = self.lead_once(session, *held).await;
        self.decide(after).await
    }
}

/// Waits until a command that runs while nothing is led has ended, with all it started. For ever, if
/// there is none.
pub(super) async fn ended(running: &mut Option<Guardian>) -> Exit {
    let Some(guardian) = running else { return std::future::pending().await };
    let exit = follow(guardian, None).await;
    *running = None;
    exit
}

/// Waits until a tree is gone, and answers how the command ended.
pub(super) async fn follow(guardian: &mut Guardian, until: Option<Moment>) -> Exit {
    loop {
        match guardian.news().await {
            Some(News::Gone) => break,
            Some(_) => {}
            None => {
                guardian.bury(until).await;
                break;
            }
        }
    }
    guardian.ending().map_or(Exit::Error, Exit::of_ending)
}

/// Waits for a moment; for ever, if there is none.
pub(in crate::commands) async fn overdue(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Why a program cannot be run, if it cannot: better known before campaigning than after.
fn missing(program: &OsStr) -> Option<Exit> {
    let candidates: Vec<PathBuf> = if program.as_encoded_bytes().contains(&b'/') {
        vec![program.into()]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
    };
    let runs = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if candidates.iter().any(runs) {
        return None;
    }
    let found = candidates.iter().any(|path| Path::new(path).exists());
    Some(if found { Exit::NotExecutable } else { Exit::NotFound })
}
