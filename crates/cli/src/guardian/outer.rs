//! The guardian's guardian: carries messages up and down, and ends what inner does not end in time.

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use tenure::clock::{Boottime, Clock, Moment};

use super::VERB;
use super::alarm::Alarm;
use super::confirm::confirm_stopped;
use super::inner::TERMINATE;
use super::plan::{Cause, Due, Plan};
use super::post::{Post, receive_charge, send_charge};
use super::tree::Tree;
use super::undisturbed::be_undisturbed;
use super::watchdog::Watchdog;
use super::words::{Charge, News, Order};

/// How long inner may take to end when it has nothing more to do.
const REAP_PATIENCE: Duration = Duration::from_millis(100);
/// How long inner may take to kill, if there is time.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often to look for orphans while killing.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Guards inner to its end, and everything below it.
pub(super) fn run(command: Vec<OsString>) -> anyhow::Result<ExitCode> {
    be_undisturbed()?;
    let (stream, charge, stdin) = receive_charge()?;
    let mut outer = Outer::start(Post::new(stream)?, &charge, &command, stdin)?;
    outer.guard()?;
    if let Some(watchdog) = outer.watchdog.take() {
        watchdog.disarm();
    }
    if let Some(marker) = &charge.marker {
        let _ = fs::remove_file(marker);
    }
    outer.above.say(&News::Gone.line());
    outer.reap_inner();
    if let Some(session) = &charge.session
        && !outer.is_done()?
    {
        confirm_stopped(session, outer.plan.cause());
    }
    Ok(ExitCode::SUCCESS)
}

struct Outer {
    above: Post,
    below: Post,
    plan: Plan,
    tree: Tree,
    alarm: Alarm,
    watchdog: Option<Watchdog>,
    inner: u32,
    doubt_told: bool,
    /// Inner has told how the command ended.
    ended_told: bool,
    /// Inner has told that the tree is gone.
    gone: bool,
}

impl Outer {
    fn start(
        above: Post,
        charge: &Charge,
        command: &[OsString],
        stdin: OwnedFd,
    ) -> anyhow::Result<Outer> {
        let tree = Tree::adopt(None).context("become the reaper of orphans")?;
        let watchdog = charge.watchdog.as_ref().map(Watchdog::arm).transpose();
        let watchdog = watchdog.context("open the watchdog")?;
        let (ours, theirs) = UnixStream::pair().context("make a socket")?;
        send_charge(&ours, charge, stdin.as_fd())?;
        let inner = Command::new("/proc/self/exe")
            .arg0("tenure")
            .args([VERB, "inner"])
            .args(command)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0)
            .spawn()
            .context("start the inner guardian")?;
        // In doubt at the same moment as inner, and later than it in killing.
        let grace = charge.grace() + charge.kill_time();
        Ok(Outer {
            above,
            below: Post::new(ours)?,
            plan: Plan::new(grace, charge.kill_time(), charge.until(), TERMINATE).patient(PATIENCE),
            tree,
            alarm: Alarm::new().context("make a timer")?,
            watchdog,
            inner: inner.id(),
            doubt_told: false,
            ended_told: false,
            gone: false,
        })
    }

    /// Until no process is left.
    fn guard(&mut self) -> anyhow::Result<()> {
        loop {
            let now = Boottime.now();
            // Before inner is heard: if it is gone here, all that it has said, and that it is gone, is read below.
            self.tree.reap();
            let is_gone = self.tree.is_gone();
            self.pass_down(now);
            self.pass_up(now);
            if self.gone || (is_gone && self.tree.is_gone()) {
                return Ok(());
            }
            let due = self.plan.due(now);
            if self.plan.cause() == Some(Cause::Doubt) && !self.doubt_told {
                // Inner says so too, if it is awake.
                self.doubt_told = true;
                self.above.say(&News::Doubt.line());
            }
            if due == Due::Kill {
                self.tree.kill();
            }
            let hungry = self.watchdog.as_mut().map(|dog| dog.feed(now, self.plan.until()));
            let next = match due {
                Due::Kill => Some(now + LOOK_AGAIN),
                _ => self.plan.next(),
            };
            self.wait([next, hungry].into_iter().flatten().min())?;
        }
    }

    /// Waits for inner, which has nothing more to do, so that no process above inherits its remains.
    fn reap_inner(&mut self) {
        let patience = Boottime.now() + REAP_PATIENCE;
        while !self.tree.is_gone() && Boottime.now() < patience {
            self.tree.reap();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until the supervisor has told the server that all has ended. Answers no if that is not to be
    /// expected: it is gone, stopped, or cut off.
    fn is_done(&mut self) -> anyhow::Result<bool> {
        loop {
            let mut orders = self.above.lines().into_iter().filter_map(|line| Order::parse(&line));
            if orders.any(|order| order == Order::Done) {
                return Ok(true);
            }
            let unasked = matches!(self.plan.cause(), Some(Cause::Abandoned | Cause::Doubt));
            let late = self.plan.until().is_some_and(|until| Boottime.now() >= until);
            if unasked || late || self.above.is_closed() {
                return Ok(false);
            }
            self.wait(self.plan.until())?;
        }
    }

    fn pass_down(&mut self, now: Moment) {
        for line in self.above.lines() {
            match Order::parse(&line) {
                Some(Order::Until(until)) => self.plan.extend(until),
                Some(Order::Stop(_) | Order::Kill) => {
                    self.plan.stop(now, Cause::Ordered, TERMINATE);
                }
                Some(Order::Signal(_) | Order::Tell(_) | Order::Done) | None => {}
            }
            self.below.say(&format!("{line}\n"));
        }
        if self.above.is_closed() {
            self.plan.stop(now, Cause::Abandoned, TERMINATE);
            self.below.hang_up();
        }
    }

    fn pass_up(&mut self, now: Moment) {
        for line in self.below.lines() {
            match News::parse(&line) {
                // Said by us, when the rest is done.
                Some(News::Gone) => {
                    self.gone = true;
                    continue;
                }
                Some(News::Ended(_)) => {
                    self.ended_told = true;
                    self.plan.stop(now, Cause::Ended, TERMINATE);
                }
                _ => {}
            }
            self.above.say(&format!("{line}\n"));
        }
        if self.below.is_closed() && !self.gone {
            // Inner was killed. The kernel has killed the command, and what is left of it is ours.
            self.tree.inherit(self.inner);
            if !std::mem::replace(&mut self.ended_told, true) {
                self.above.say(&News::Unguarded.line());
            }
            self.plan.kill(now, Cause::Ended);
        }
    }

    fn wait(&self, until: Option<Moment>) -> anyhow::Result<()> {
        self.alarm.set(until)?;
        let readable = PollFlags::IN;
        let alarm = self.alarm.as_fd();
        let mut files = vec![PollFd::from_borrowed_fd(alarm, readable)];
        // A closed socket is always ready, and would be looked at without end.
        for post in [&self.above, &self.below] {
            if !post.is_closed() {
                files.push(PollFd::new(post, readable));
            }
        }
        match poll(&mut files, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
