//! The supervisor's end of a guardian.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, getpid, set_child_subreaper};
use tenure::clock::Moment;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};

use super::VERB;
use super::post::send_charge;
use super::tree::{children, end_strays};
use super::words::{Charge, Ending, News, Order};
use crate::args::secret_variables;

/// What to run, and how.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) charge: Charge,
    /// The program and its arguments.
    pub(crate) command: &'a [OsString],
    /// What is added to the environment.
    pub(crate) environment: Vec<(String, OsString)>,
    /// Whether it reads what is said to us. Only one at a time can.
    pub(crate) reads: bool,
}

/// The outer guardians of this process that are alive. What the end of one leaves behind is not among them.
static ALIVE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn alive() -> MutexGuard<'static, BTreeSet<u32>> {
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guardian and everything below it.
#[derive(Debug)]
pub(crate) struct Guardian {
    child: Child,
    /// Its process number, also when it has ended.
    number: u32,
    /// Children of ours from before: not this guardian's, whatever happens to it.
    siblings: Vec<Pid>,
    kill_time: Duration,
    started: bool,
    ending: Option<Ending>,
    out: OwnedWriteHalf,
    news: Lines<BufReader<OwnedReadHalf>>,
}

impl Guardian {
    /// Starts one. It starts the command, or says why not.
    pub(crate) fn start(job: Job<'_>) -> anyhow::Result<Guardian> {
        // If both guardians are killed, whatever they guarded comes here.
        set_child_subreaper(Some(getpid())).context("become the reaper of orphans")?;
        let siblings = children();
        let (ours, theirs) = StdUnixStream::pair().context("make a socket")?;
        match job.reads {
            true => send_charge(&ours, &job.charge, io::stdin().as_fd())?,
            false => send_charge(&ours, &job.charge, File::open("/dev/null")?.as_fd())?,
        }
        // Before the burial of another one can see it.
        let mut alive = alive();
        let mut guardian = Command::new("/proc/self/exe");
        secret_variables().iter().for_each(|name| {
            guardian.env_remove(name);
        });
        let child = guardian
            .arg0("tenure")
            .args([VERB, "outer"])
            .args(job.command)
            .envs(job.environment)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0)
            .spawn()
            .context("start the guardian")?;
        alive.extend(child.id());
        drop(alive);
        ours.set_nonblocking(true)?;
        let (news, out) = UnixStream::from_std(ours)?.into_split();
        let kill_time = job.charge.kill_time();
        let (started, ending) = (false, None);
        Ok(Guardian {
            number: child.id().unwrap_or_default(),
            child,
            siblings,
            kill_time,
            started,
            ending,
            out,
            news: BufReader::new(news).lines(),
        })
    }

    /// The process number of the outer guardian.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// The lease is sure to last until then.
    pub(crate) async fn extend(&mut self, until: Moment) {
        self.say(Order::Until(until)).await;
    }

    /// Ends it: this signal, grace, SIGKILL.
    pub(crate) async fn stop(&mut self, signal: i32) {
        self.say(Order::Stop(signal)).await;
    }

    /// Ends it at once.
    pub(crate) async fn kill(&mut self) {
        self.say(Order::Kill).await;
    }

    /// Passes a signal on to the command.
    pub(crate) async fn signal(&mut self, signal: i32) {
        self.say(Order::Signal(signal)).await;
    }

    /// The same, as soon as the command has something that hears it.
    pub(crate) async fn tell(&mut self, signal: i32) {
        self.say(Order::Tell(signal)).await;
    }

    /// The server knows that all has ended. A guardian that is dropped without having heard this tells the
    /// server itself.
    pub(crate) async fn done(&mut self) {
        self.say(Order::Done).await;
    }

    async fn say(&mut self, order: Order) {
        // A guardian that is gone is noticed by its news.
        let _ = self.out.write_all(order.line().as_bytes()).await;
    }

    /// What happens next. Nothing, when the guardian itself is gone without having said that all is.
    pub(crate) async fn news(&mut self) -> Option<News> {
        loop {
            match self.news.next_line().await {
                Ok(Some(line)) => {
                    let Some(news) = News::parse(&line) else { continue };
                    self.started |= matches!(news, News::Started(_));
                    if let News::Ended(ending) = news {
                        self.ending = Some(ending);
                    }
                    return Some(news);
                }
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Whether the command was started.
    pub(crate) fn has_started(&self) -> bool {
        self.started
    }

    /// How the command ended, if it has.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// After the guardian was killed: waits until everything below it is gone, and sees to it.
    pub(crate) async fn bury(&mut self, until: Option<Moment>) {
        let _ = self.child.start_kill();
        let _ = self.child.wait().await;
        alive().remove(&self.number);
        let kill_at = until.map_or(Moment::default(), |until| {
            Moment::after_start(until.since_start().saturating_sub(self.kill_time))
        });
        let siblings = std::mem::take(&mut self.siblings);
        let is_other = move |child: Pid| {
            let number = child.as_raw_nonzero().get().unsigned_abs();
            siblings.contains(&child) || alive().contains(&number)
        };
        let _ = tokio::task::spawn_blocking(move || end_strays(is_other, kill_at)).await;
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        alive().remove(&self.number);
    }
}
