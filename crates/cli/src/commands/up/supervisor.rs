//! The members together: the loop that looks after them.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};

use super::input;
use super::member::{End, Process, Recipe};
use super::order::{self, Order};
use super::plan::{CLIENT, Home, Plan, name};
use super::raft::{Raft, View};
use super::told::{Mouth, Seen, Told};
use super::users;
use crate::args::TlsFiles;
use crate::exit::Exit;
use crate::output::Format;

/// Between two looks at the raft leader, before and after all members were ready once.
const LOOK_EARLY: Duration = Duration::from_millis(10);
const EARLY: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(200);
/// How long members may take to stop; then they are killed.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// With `--restart`: a member that cannot live must not keep a processor busy.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// `tenure serve` ends so when it was removed: starting it again changes nothing.
const REMOVED: i32 = Exit::Removed.code() as i32;

/// All members, and what is known of them.
#[derive(Debug)]
pub(super) struct Supervisor {
    plan: Plan,
    restart: bool,
    flags: Vec<String>,
    mouth: Mouth,
    members: Vec<Member>,
    began: Instant,
    ready: bool,
    leader: Option<usize>,
    view: View,
    ends: mpsc::UnboundedSender<End>,
    ended: mpsc::UnboundedReceiver<End>,
}

#[derive(Debug, Default)]
struct Member {
    process: Option<Process>,
    paused: bool,
    /// We are the reason for its end.
    told_to_end: bool,
    /// To be started again then.
    restart_at: Option<Instant>,
}

impl Supervisor {
    pub(super) fn new(plan: Plan, restart: bool, flags: Vec<String>, format: Format) -> Supervisor {
        let members = plan.ports.iter().map(|_| Member::default()).collect();
        let (ends, ended) = mpsc::unbounded_channel();
        let mouth = Mouth::new(format);
        Supervisor {
            plan,
            restart,
            flags,
            mouth,
            members,
            began: Instant::now(),
            ready: false,
            leader: None,
            view: View::default(),
            ends,
            ended,
        }
    }

    /// Starts all members and does as told until the end.
    pub(super) async fn run(mut self) -> anyhow::Result<Exit> {
        let mut stop = Stop::new()?;
        for at in 0..self.members.len() {
            self.start(at)?;
        }
        let (views, mut seen) = mpsc::unbounded_channel();
        let raft = Raft::new(&self.plan.endpoints(), self.plan.client_tls().as_ref())?;
        let watching = tokio::spawn(watch(raft.clone(), self.members.len(), views));
        let mut lines = Some(input::lines());
        let exit = loop {
            let restart = self.next_restart();
            tokio::select! {
                () = stop.asked() => break Exit::Done,
                Some(end) = self.ended.recv() => {
                    self.on_end(end);
                    self.see_whether_ready(&raft).await;
                    if !self.ready && self.members.iter().all(|member| member.is_over()) {
                        self.mouth.say("no member could start");
                        break Exit::Error;
                    }
                }
                Some(view) = seen.recv() => {
                    self.on_view(view);
                    self.see_whether_ready(&raft).await;
                }
                line = next(&mut lines) => match order::read(&line, self.members.len()) {
                    Ok(Order::Quit) => break Exit::Done,
                    Ok(order) => self.obey(order, &raft).await,
                    Err(why) => self.mouth.say(&why),
                },
                () = restart => self.restart_due(),
            }
        };
        watching.abort();
        self.end(&mut stop).await;
        Ok(exit)
    }

    fn start(&mut self, at: usize) -> anyhow::Result<()> {
        let ports = self.plan.ports[at];
        let recipe = Recipe {
            at,
            home: self.plan.home.path(),
            initial_cluster: &self.plan.initial_cluster(),
            client_url: &self.plan.url(ports.client),
            peer_url: &self.plan.url(ports.peer),
            tls_flags: &self.plan.tls_flags(at),
            flags: &self.flags,
        };
        let process = Process::start(&recipe, self.mouth, self.ends.clone())?;
        if self.ready {
            self.mouth.tell(&Told::Started { member: name(at), pid: process.pid });
        }
        self.members[at] = Member { process: Some(process), ..Member::default() };
        Ok(())
    }

    fn start_or_say(&mut self, at: usize) {
        if let Err(error) = self.start(at) {
            self.mouth.say(&format!("{}: {error:#}", name(at)));
        }
    }

    fn on_end(&mut self, end: End) {
        let member = &mut self.members[end.at];
        let asked_for = member.told_to_end;
        let Some(process) = member.process.take() else { return };
        member.paused = false;
        let removed = end.status.and_then(|status| status.code()) == Some(REMOVED);
        if self.restart && !asked_for && !removed {
            member.restart_at = Some(Instant::now() + RESTART_PAUSE);
        }
        self.mouth.tell(&Told::ended(end.at, process.pid, end.status, asked_for));
    }

    fn on_view(&mut self, view: View) {
        // Silence says nothing about the raft leader.
        if !view.someone_answers {
            return;
        }
        if self.ready && view.leader != self.leader {
            self.mouth.tell(&Told::RaftLeader { member: view.leader.map(name) });
        }
        self.leader = view.leader;
        self.view = view;
    }

    /// Ready is when all running members follow one raft leader. A member that cannot start must not keep the others
    /// from being reported.
    async fn see_whether_ready(&mut self, raft: &Raft) {
        let running = self.members.iter().filter(|member| member.runs()).count();
        let enough = self.members.len() / 2 + 1;
        if !self.ready && self.view.followers >= running.max(enough) {
            self.ready = true;
            let has_users = self.plan.tls.is_some()
                && match users::make(raft.client()).await {
                    Ok(()) => true,
                    Err(error) => {
                        self.mouth.say(&format!("no user could be made: {error:#}"));
                        false
                    }
                };
            self.tell_ready(has_users);
        }
    }

    fn tell_ready(&self, has_users: bool) {
        self.mouth.tell(&Told::Ready {
            after_ms: self.began.elapsed().as_millis() as u64,
            members: self.everybody(),
            endpoints: self.plan.endpoints(),
            tls: self.plan.client_tls().iter().flat_map(assignments).collect(),
            user: has_users.then(|| CLIENT.to_owned()),
            browse: self.browse(),
            data_dir: self.plan.home.path().display().to_string(),
            kept: matches!(self.plan.home, Home::Kept(_)),
        });
        self.mouth.say(order::HELP.trim_end());
    }

    /// Where the first member shows the dashboard, if the flags for all members do not switch it off.
    fn browse(&self) -> Option<String> {
        let flags = self.flags.join(" ");
        let is_off = flags.contains("--ui off") || flags.contains("--ui=off");
        // With TLS, a browser would have to have a certificate.
        let shows = !is_off && self.plan.tls.is_none();
        shows.then(|| format!("{}/ui/", self.plan.url(self.plan.ports[0].client)))
    }

    fn everybody(&self) -> Vec<Seen> {
        let seen = |(at, member): (usize, &Member)| Seen {
            member: name(at),
            client_url: self.plan.url(self.plan.ports[at].client),
            peer_url: self.plan.url(self.plan.ports[at].peer),
            pid: member.process.as_ref().map(|process| process.pid),
            state: match (&member.process, member.paused) {
                (None, _) => "ended",
                (Some(_), true) => "paused",
                (Some(_), false) => "runs",
            },
            raft_leader: self.leader == Some(at),
        };
        self.members.iter().enumerate().map(seen).collect()
    }

    async fn obey(&mut self, order: Order, raft: &Raft) {
        match order {
            Order::Kill(at) => self.finish(at, Signal::KILL),
            Order::Stop(at) => self.finish(at, Signal::TERM),
            Order::Restart(at) if self.members[at].process.is_some() => {
                self.mouth.say(&format!("{} runs: k {1} or s {1} ends it first", name(at), at + 1));
            }
            Order::Restart(at) => self.start_or_say(at),
            Order::RestartAll => {
                for at in 0..self.members.len() {
                    if self.members[at].process.is_none() {
                        self.start_or_say(at);
                    }
                }
            }
            Order::Pause(at) => self.pause(at, true),
            Order::Continue(at) => self.pause(at, false),
            Order::KillLeader => match raft.look().await.leader {
                Some(at) => self.finish(at, Signal::KILL),
                None => self.mouth.say("there is no raft leader"),
            },
            Order::Status => {
                self.leader = raft.look().await.leader;
                self.mouth.tell(&Told::Status { members: self.everybody() });
            }
            Order::Help => self.mouth.say(order::HELP.trim_end()),
            Order::Quit | Order::Nothing => {}
        }
    }

    fn finish(&mut self, at: usize, signal: Signal) {
        let member = &mut self.members[at];
        // A member that is told to end must not be started again by itself.
        member.restart_at = None;
        let Some(process) = &member.process else {
            return self.mouth.say(&format!("{} has ended already", name(at)));
        };
        member.told_to_end = true;
        process.signal(signal);
        // A paused process hears nothing but -9.
        if member.paused && signal == Signal::TERM {
            process.signal(Signal::CONT);
        }
    }

    fn pause(&mut self, at: usize, paused: bool) {
        let member = &mut self.members[at];
        let Some(process) = &member.process else {
            return self.mouth.say(&format!("{} has ended", name(at)));
        };
        process.signal(if paused { Signal::STOP } else { Signal::CONT });
        member.paused = paused;
        let member = name(at);
        self.mouth.tell(&if paused { Told::Paused { member } } else { Told::Continued { member } });
    }

    /// When the next member is to be started again; never, if none is.
    fn next_restart(&self) -> impl Future<Output = ()> + use<> {
        let next = self.members.iter().filter_map(|member| member.restart_at).min();
        let wait: Option<Sleep> =
            next.map(|at| sleep(at.saturating_duration_since(Instant::now())));
        async {
            match wait {
                Some(wait) => wait.await,
                None => std::future::pending().await,
            }
        }
    }

    fn restart_due(&mut self) {
        let now = Instant::now();
        for at in 0..self.members.len() {
            if self.members[at].restart_at.is_some_and(|due| due <= now) {
                self.members[at].restart_at = None;
                self.start_or_say(at);
            }
        }
    }

    /// Stops all running members: politely, and when that takes too long or is asked for again, with -9. Members with
    /// temporary data have nothing to put in order.
    async fn end(&mut self, stop: &mut Stop) {
        let mut killed = matches!(self.plan.home, Home::Temporary(_)) && self.kill_all();
        for at in 0..self.members.len() {
            if self.members[at].process.is_some() && !killed {
                self.finish(at, Signal::TERM);
            }
        }
        let mut patience = Box::pin(sleep(STOP_PATIENCE));
        while self.members.iter().any(|member| member.process.is_some()) {
            tokio::select! {
                Some(end) = self.ended.recv() => {
                    // How it ended is worth a word only if it did not end well. One that has just been
                    // started may not be ready for our signal, and dies of it.
                    let well = end.status.is_some_and(|status| {
                        status.success() || status.signal() == Some(Signal::TERM.as_raw())
                    });
                    if !well && !killed {
                        self.on_end(end);
                    } else {
                        self.members[end.at].process = None;
                    }
                }
                () = &mut patience, if !killed => killed = self.kill_all(),
                () = stop.asked(), if !killed => killed = self.kill_all(),
            }
        }
        self.mouth.tell(&Told::Down { members: self.members.len() });
    }

    fn kill_all(&self) -> bool {
        self.members.iter().filter_map(|member| member.process.as_ref()).for_each(|process| {
            process.signal(Signal::KILL);
        });
        true
    }
}

impl Member {
    /// It is there and can answer.
    fn runs(&self) -> bool {
        self.process.is_some() && !self.paused
    }

    /// It has ended and will not be started again.
    fn is_over(&self) -> bool {
        self.process.is_none() && self.restart_at.is_none()
    }
}

/// Ctrl-C, SIGTERM, or a terminal that was closed.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: Option<tokio::signal::unix::Signal>,
}

impl Stop {
    fn new() -> anyhow::Result<Stop> {
        // nohup means it.
        let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Stop {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup,
        })
    }

    async fn asked(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// What a shell sets for clients.
fn assignments(tls: &TlsFiles) -> Vec<String> {
    let set = tls.environment();
    set.into_iter().map(|(name, value)| format!("{name}={}", value.to_string_lossy())).collect()
}

/// Whether this process was started so that a closed terminal does not end it.
fn ignores_hangup() -> bool {
    const HANGUP: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & HANGUP != 0)
}

/// The next line typed; never, when stdin has ended.
async fn next(lines: &mut Option<mpsc::UnboundedReceiver<String>>) -> String {
    if let Some(open) = lines {
        if let Some(line) = open.recv().await {
            return line;
        }
        *lines = None;
    }
    std::future::pending().await
}

/// Tells whenever what the members say of themselves has changed.
async fn watch(raft: Raft, members: usize, views: mpsc::UnboundedSender<View>) {
    let mut last = View::default();
    let began = Instant::now();
    let mut ready = false;
    loop {
        let view = raft.look().await;
        ready = ready || view.followers == members || began.elapsed() > EARLY;
        if view != last {
            last = view.clone();
            if views.send(view).is_err() {
                return;
            }
        }
        sleep(if ready { LOOK } else { LOOK_EARLY }).await;
    }
}
