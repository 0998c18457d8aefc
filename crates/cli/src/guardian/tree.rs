//! The processes below this one.
//!
//! This process is a subreaper: a process below that loses its parent becomes its child. So its direct
//! children are all it has to know. They cannot be mistaken for others, because the number of a child
//! is not used again before its end was heard of here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, kill_process,
    kill_process_group, set_child_subreaper, wait, waitid, waitpid,
};
use tenure::clock::{Boottime, Clock, Moment};

use super::VERB;
use super::cgroup::Cgroup;
use super::words::Ending;

/// Between two looks at processes whose end is not announced.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The tree below this process.
#[derive(Debug)]
pub(super) struct Tree {
    cgroup: Option<Cgroup>,
    /// The processes that were asked to end already.
    asked: BTreeSet<i32>,
}

/// What became of a child.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// It has ended.
    Ended(Pid, WaitStatus),
    /// It was stopped, by this signal.
    Halted(Pid, i32),
}

impl Tree {
    /// From now on orphans come here.
    pub(super) fn adopt(cgroup: Option<Cgroup>) -> io::Result<Tree> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Tree { cgroup, asked: BTreeSet::new() })
    }

    /// Takes over the group of a guardian that has died.
    pub(super) fn inherit(&mut self, guardian: u32) {
        self.cgroup = self.cgroup.take().or_else(|| Cgroup::left_by(guardian));
    }

    pub(super) fn cgroup(&self) -> Option<&Cgroup> {
        self.cgroup.as_ref()
    }

    /// Whatever happened to children since the last time. Nothing waits.
    pub(super) fn reap(&mut self) -> Vec<Fate> {
        let mut fates = Vec::new();
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            match status.stopping_signal() {
                Some(signal) => fates.push(Fate::Halted(pid, signal)),
                None => {
                    self.asked.remove(&pid.as_raw_nonzero().get());
                    fates.push(Fate::Ended(pid, status));
                }
            }
        }
        fates
    }

    /// Whether no process is left.
    pub(super) fn is_gone(&self) -> bool {
        // Only looks: processes that have ended are still to be reaped.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let childless = matches!(waitid(WaitId::All, look), Err(Errno::CHILD));
        childless && self.cgroup.as_ref().is_none_or(Cgroup::is_empty)
    }

    /// Asks all processes to end that were not asked yet: the command's process group, and those that left it. A signal
    /// that does not mean the end to every program is for the command alone.
    pub(super) fn ask_to_end(&mut self, group: Pid, signal: i32) {
        let Some(signal) = named(signal) else { return };
        let is_known = [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP].contains(&signal);
        for child in children() {
            let number = child.as_raw_nonzero().get();
            if !self.asked.insert(number) {
                continue;
            }
            let tell: fn(Pid, Signal) -> _ = match child == group {
                // The group's leader stands for all of its group.
                true if is_known => kill_process_group,
                false if !is_known => continue,
                _ => kill_process,
            };
            // A stopped process handles no signal until it is continued.
            let _ = tell(child, signal).and_then(|()| tell(child, Signal::CONT));
        }
    }

    /// Kills all present children. To be repeated until the tree is gone: killing a parent makes its children ours.
    pub(super) fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
    }
}

/// How a child ended.
pub(super) fn ending(status: WaitStatus) -> Ending {
    let small = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    match status.terminating_signal() {
        Some(signal) => Ending::Signal(small(signal)),
        None => Ending::Code(status.exit_status().map_or(u8::MAX, small)),
    }
}

/// The signal of this number, if it has a name.
pub(super) fn named(signal: i32) -> Option<Signal> {
    Signal::from_named_raw(signal)
}

/// The children of this process at this moment.
pub(super) fn children() -> Vec<Pid> {
    let me = getpid().as_raw_nonzero();
    // Each thread has its own; orphans come to the first.
    let threads = fs::read_dir(format!("/proc/{me}/task")).into_iter().flatten().flatten();
    let listed: Option<Vec<String>> =
        threads.map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
    let numbers: Vec<i32> = match listed.filter(|lists| !lists.is_empty()) {
        Some(lists) => {
            let words = lists.iter().flat_map(|list| list.split_whitespace());
            words.filter_map(|word| word.parse().ok()).collect()
        }
        // A kernel without that list, or a thread that has just ended.
        None => {
            let parents = parents().into_iter();
            parents.filter(|(_, parent)| *parent == me.get()).map(|(child, _)| child).collect()
        }
    };
    numbers.into_iter().filter_map(Pid::from_raw).collect()
}

/// The visible processes of this machine, with their parents.
fn parents() -> BTreeMap<i32, i32> {
    let Ok(processes) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let parent = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in brackets and may contain anything, brackets too.
        let (_, rest) = stat.rsplit_once(')')?;
        rest.split_whitespace().nth(1)?.parse::<i32>().ok()
    };
    let numbers = processes.flatten().filter_map(number);
    numbers.filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

/// How much memory all processes below a guardian have in use, guardians not counted.
pub(crate) fn rss_bytes(root: u32) -> u64 {
    let parents = parents();
    let is_below = |mut pid: i32| {
        // As deep as trees get; a process that is reparented meanwhile cannot make this a circle.
        for _ in 0..1024 {
            match parents.get(&pid) {
                Some(parent) if i64::from(*parent) == i64::from(root) => return true,
                Some(parent) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    let rss = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    let is_ours = |pid: i32| Pid::from_raw(pid).is_some_and(|pid| is_guardian(pid, "inner"));
    let guarded = parents.keys().filter(|pid| is_below(**pid) && !is_ours(**pid));
    guarded.filter_map(rss).sum()
}

/// Waits until the inner guardian that became a child of this process has ended everything below it; kills
/// what has no guardian any more, and the guardian too when it is time. For a supervisor whose outer guardian
/// was killed. Children that were there before the guardian are none of its business.
pub(super) fn end_strays(is_other: impl Fn(Pid) -> bool, kill_at: Moment) {
    loop {
        let strays: Vec<Pid> = children().into_iter().filter(|child| !is_other(*child)).collect();
        if strays.is_empty() {
            return;
        }
        for stray in strays {
            if !is_guardian(stray, "inner") || Boottime.now() >= kill_at {
                let _ = kill_process(stray, Signal::KILL);
            }
            let _ = waitpid(Some(stray), WaitOptions::NOHANG);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Whether a child is a guardian that does its own work.
fn is_guardian(child: Pid, role: &str) -> bool {
    words_of(child).starts_with(format!("tenure\0{VERB}\0{role}\0").as_bytes())
}

/// Whether what was started as us is the command by now.
pub(super) fn has_become_command(child: Pid) -> bool {
    let words = words_of(child);
    !words.is_empty() && !words.starts_with(format!("tenure\0{VERB}\0").as_bytes())
}

/// The command line of a process, a zero after each word.
fn words_of(process: Pid) -> Vec<u8> {
    fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero())).unwrap_or_default()
}

/// Whether a process catches, blocks or ignores a signal: it does not die of it.
pub(super) fn has_heed(process: Pid, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero()));
    let status = status.unwrap_or_default();
    let mask = |line: &str| {
        let (name, mask) = line.split_once(':')?;
        let ours = ["SigCgt", "SigBlk", "SigIgn"].contains(&name);
        u64::from_str_radix(mask.trim(), 16).ok().filter(|_| ours)
    };
    let all = status.lines().filter_map(mask).fold(0, |all, mask| all | mask);
    all >> (signal - 1) & 1 == 1
}
