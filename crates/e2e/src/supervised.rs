//! `tenure run` and `tenure lock` with their commands, and the trail that commands leave.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Program, eventually, tools};

/// A supervisor: what it and its command say is in the lines of the program.
#[derive(Debug)]
pub struct Supervised {
    /// The supervisor's process.
    pub program: Program,
}

impl Supervised {
    /// `tenure VERB…` for these endpoints.
    pub fn start(endpoints: &str, words: &[&str]) -> Supervised {
        Supervised::start_behind(&[], endpoints, words)
    }

    /// The same behind another command, which must replace itself with ours.
    pub fn start_behind(before: &[OsString], endpoints: &str, words: &[&str]) -> Supervised {
        // Talk and data in one place, in the order they came.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).args(before);
        command.arg(tools::tenure()).args(["--endpoints", endpoints]).args(words);
        Supervised { program: Program::start(&words.join(" "), &mut command) }
    }

    /// The number of the supervisor.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// The outer and the inner guardian, and the command: everything below, from top to bottom.
    pub async fn chain(&self) -> [u32; 3] {
        eventually("a command below two guardians", async || {
            let mut chain = Vec::new();
            let mut above = self.pid();
            while let Some(child) = children_of(above).first() {
                chain.push(*child);
                above = *child;
            }
            chain.get(..3).and_then(|c| c.try_into().ok()).ok_or(format!("{chain:?}"))
        })
        .await
    }

    /// Sends a signal to the supervisor.
    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }
}

/// Sends a signal to a process that may have gone meanwhile.
pub fn send(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid as i32).expect("not 0"), signal);
}

/// The children of a process.
pub fn children_of(pid: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Whether a process runs; one that has ended and was not heard of yet does not.
pub fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// A file that all commands append their tokens to, as fast as they can. Appends are atomic and in order, so
/// the file tells which commands worked at the same time.
#[derive(Clone, Debug)]
pub struct Trail {
    path: PathBuf,
}

impl Trail {
    /// A trail in this directory.
    pub fn new(dir: &Path) -> Trail {
        Trail { path: dir.join("trail") }
    }

    /// A shell command that leaves a trail and ends when it is told to.
    pub fn polite(&self) -> String {
        self.work("m")
    }

    /// One that ignores every signal, and starts another in a session of its own whose parent is gone.
    pub fn stubborn(&self) -> String {
        let deaf = "trap \"\" TERM INT HUP QUIT";
        let (astray, main) = (self.work("astray"), self.work("m"));
        format!("{deaf}; setsid sh -c '{deaf}; ( {astray} ) & exit 0' & {main}")
    }

    /// Appends the token, the worker's name, and the seconds since the machine was started, again and again.
    fn work(&self, who: &str) -> String {
        let path = self.path.display();
        format!(
            "while read up _ < /proc/uptime; do echo \"$TENURE_TOKEN {who} $up\" >> {path}; \
             sleep 0.004; done"
        )
    }

    /// The tokens and their workers, in order.
    pub fn steps(&self) -> Vec<(i64, String)> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let step = |line: &str| {
            let mut words = line.split(' ');
            let token = words.next()?.parse().ok()?;
            Some((token, words.next()?.to_owned()))
        };
        text.lines().filter_map(step).collect()
    }

    /// Waits until a worker with a greater token works, and answers its token.
    pub async fn token_after(&self, before: i64) -> i64 {
        eventually(&format!("somebody works with a token above {before}"), async || {
            let steps = self.steps();
            let found = steps.iter().map(|(token, _)| *token).find(|token| *token > before);
            found.ok_or(format!("{} steps, last {:?}", steps.len(), steps.last()))
        })
        .await
    }

    /// Waits until this worker has worked with this token.
    pub async fn has(&self, token: i64, who: &str) {
        eventually(&format!("{who} works with token {token}"), async || {
            let steps = self.steps();
            let found = steps.iter().any(|(t, w)| *t == token && w == who);
            if found { Ok(()) } else { Err(format!("{} steps", steps.len())) }
        })
        .await;
    }

    /// Waits until there were steps so long after now, by the machine's own clock.
    pub async fn works_for(&self, time: Duration) {
        let (began, before) = (Instant::now(), self.steps().len());
        eventually("work goes on", async || match self.steps().len() {
            now if now > before && began.elapsed() > time => Ok(()),
            now => Err(format!("{now} steps after {before}")),
        })
        .await;
    }

    /// No worker ever worked after one with a greater token had begun.
    pub fn never_two(&self) {
        assert_eq!(self.two_at_once(), None);
    }

    /// The first worker that worked after one with a greater token had begun, if there is one.
    pub fn two_at_once(&self) -> Option<String> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let token = |line: &str| line.split(' ').next().and_then(|t| t.parse::<i64>().ok());
        let at = lines.windows(2).position(|pair| token(pair[0]) > token(pair[1]))?;
        let around = at.saturating_sub(10)..lines.len().min(at + 10);
        Some(format!("two at once in line {at}:\n{}", lines[around].join("\n")))
    }
}
