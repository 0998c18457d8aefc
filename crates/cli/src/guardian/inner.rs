//! The guardian next to the command: starts it, reaps whatever it leaves, and ends it all in time.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tenure::clock::{Boottime, Clock, Moment};

use super::alarm::Alarm;
use super::cgroup::Cgroup;
use super::confirm::confirm_stopped;
use super::plan::{Cause, Due, Plan};
use super::post::{Post, receive_charge};
use super::tree::{Fate, Tree, ending, has_become_command, has_heed, named};
use super::undisturbed::be_undisturbed;
use super::words::{Charge, News, Order};
use super::{VERB, start};

/// How often to look for new orphans while the tree is being ended: nothing announces them.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long a signal is held back for a command that takes no heed of it.
const PATIENCE: Duration = Duration::from_secs(5);
/// The signal that ends a command by default.
pub(super) const TERMINATE: i32 = Signal::TERM.as_raw();

/// Guards one command to its end.
pub(super) fn run(command: Vec<OsString>) -> anyhow::Result<ExitCode> {
    be_undisturbed()?;
    let (stream, charge, stdin) = receive_charge()?;
    let mut inner = Inner::new(Post::new(stream)?, charge)?;
    if inner.plan.due(Boottime.now()) == Due::Nothing {
        inner.start(&command, stdin)?;
    } else {
        // It took so long to get here that there is no time left to run anything.
        inner.post.say(&News::Doubt.line());
    }
    inner.guard()?;
    inner.post.say(&News::Gone.line());
    if inner.post.is_deserted() {
        // Outer cannot do its part any more.
        if let Some(marker) = &inner.charge.marker {
            let _ = fs::remove_file(marker);
        }
        if let Some(session) = &inner.charge.session {
            confirm_stopped(session, inner.plan.cause());
        }
    }
    Ok(ExitCode::SUCCESS)
}

struct Inner {
    post: Post,
    charge: Charge,
    plan: Plan,
    tree: Tree,
    alarm: Alarm,
    /// Says that something happened to a child.
    children: SignalFd,
    /// The command, also after its end.
    command: Option<Pid>,
    command_lives: bool,
    doubt_told: bool,
    /// Signals for the command that it is not ready for yet.
    held_back: VecDeque<HeldBack>,
}

/// A signal for the command.
#[derive(Clone, Copy, Debug)]
struct HeldBack {
    number: i32,
    since: Moment,
    /// Not before the command has something that hears it.
    until_heard: bool,
}

impl HeldBack {
    fn new(number: i32, since: Moment) -> HeldBack {
        HeldBack { number, since, until_heard: false }
    }

    /// What becomes the command dies of signals that the command would live with.
    fn may_go(self, command: Pid, now: Moment) -> bool {
        now >= self.since + PATIENCE
            || (has_become_command(command)
                && (!self.until_heard || has_heed(command, self.number)))
    }
}

impl Inner {
    fn new(post: Post, charge: Charge) -> anyhow::Result<Inner> {
        let mut watched = SigSet::empty();
        watched.add(NixSignal::SIGCHLD);
        watched.thread_block().context("block SIGCHLD")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Inner {
            post,
            plan: Plan::new(charge.grace(), 2 * charge.kill_time(), charge.until(), TERMINATE),
            charge,
            tree: Tree::adopt(Cgroup::make()).context("become the reaper of orphans")?,
            alarm: Alarm::new().context("make a timer")?,
            children: SignalFd::with_flags(&watched, flags).context("watch for SIGCHLD")?,
            command: None,
            command_lives: false,
            doubt_told: false,
            held_back: VecDeque::new(),
        })
    }

    /// Starts the command in a process group of its own.
    fn start(&mut self, command: &[OsString], stdin: OwnedFd) -> anyhow::Result<()> {
        let door = self.tree.cgroup().map(|cgroup| cgroup.door().into_os_string());
        let child = Command::new("/proc/self/exe")
            .arg0("tenure")
            .arg(VERB)
            .args(start::arguments(door, &self.charge, command))
            .stdin(Stdio::from(stdin))
            .process_group(0)
            .spawn()
            .context("start the command")?;
        // Reaped with all the others; `Child` only carried the number.
        let number = i32::try_from(child.id()).context("a process number")?;
        self.command = Pid::from_raw(number);
        self.command_lives = true;
        self.post.say(&News::Started(number).line());
        Ok(())
    }

    /// Until no process is left.
    fn guard(&mut self) -> anyhow::Result<()> {
        loop {
            let now = Boottime.now();
            self.hear(now);
            self.reap(now);
            self.pass_on(now);
            if self.tree.is_gone() {
                return Ok(());
            }
            let due = self.plan.due(now);
            if self.plan.cause() == Some(Cause::Doubt) && !self.doubt_told {
                self.doubt_told = true;
                self.post.say(&News::Doubt.line());
            }
            match (due, self.command) {
                (Due::Terminate(signal), Some(group)) => self.tree.ask_to_end(group, signal),
                (Due::Kill, _) => self.tree.kill(),
                _ => {}
            }
            self.wait(match due {
                Due::Nothing if self.held_back.is_empty() => self.plan.next(),
                _ => Some(now + LOOK_AGAIN),
            })?;
        }
    }

    /// Orders from above; and that the process above is gone, which is one too.
    fn hear(&mut self, now: Moment) {
        for line in self.post.lines() {
            match Order::parse(&line) {
                Some(Order::Until(until)) => {
                    self.plan.extend(until);
                    self.post.say(&News::Heard(until).line());
                }
                Some(Order::Stop(signal)) => self.plan.stop(now, Cause::Ordered, signal),
                Some(Order::Kill) => self.plan.kill(now, Cause::Ordered),
                Some(Order::Signal(signal)) => self.held_back.push_back(HeldBack::new(signal, now)),
                Some(Order::Tell(signal)) => {
                    let told = HeldBack { until_heard: true, ..HeldBack::new(signal, now) };
                    self.held_back.push_back(told);
                }
                Some(Order::Done) => {}
                None => tracing::debug!(line, "an order that means nothing"),
            }
        }
        if self.post.is_closed() {
            self.plan.stop(now, Cause::Abandoned, TERMINATE);
        }
    }

    /// Passes on what can be passed on, in order.
    fn pass_on(&mut self, now: Moment) {
        let Some(group) = self.command.filter(|_| self.command_lives) else {
            return self.held_back.clear();
        };
        while self.held_back.front().is_some_and(|signal| signal.may_go(group, now)) {
            let signal = self.held_back.pop_front().and_then(|signal| named(signal.number));
            let _ = match signal {
                // What a terminal says is for all of its foreground process group.
                Some(signal @ (Signal::WINCH | Signal::CONT)) => kill_process_group(group, signal),
                Some(signal) => kill_process(group, signal),
                None => Ok(()),
            };
        }
    }

    fn reap(&mut self, now: Moment) {
        while matches!(self.children.read_signal(), Ok(Some(_))) {}
        for fate in self.tree.reap() {
            match fate {
                Fate::Ended(pid, status) if Some(pid) == self.command => {
                    self.command_lives = false;
                    self.post.say(&News::Ended(ending(status)).line());
                    self.plan.stop(now, Cause::Ended, TERMINATE);
                }
                Fate::Halted(pid, signal) if Some(pid) == self.command => {
                    self.post.say(&News::Halted(signal).line());
                }
                Fate::Ended(..) | Fate::Halted(..) => {}
            }
        }
    }

    fn wait(&self, until: Option<Moment>) -> anyhow::Result<()> {
        self.alarm.set(until)?;
        let readable = PollFlags::IN;
        let (post, alarm) = (self.post.as_fd(), self.alarm.as_fd());
        let children = self.children.as_fd();
        let mut files = vec![
            PollFd::from_borrowed_fd(alarm, readable),
            PollFd::from_borrowed_fd(children, readable),
        ];
        // A closed socket is always ready, and would be looked at without end.
        if !self.post.is_closed() {
            files.push(PollFd::from_borrowed_fd(post, readable));
        }
        match poll(&mut files, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
