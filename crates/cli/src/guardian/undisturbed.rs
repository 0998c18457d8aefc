//! What a guardian does not let itself be disturbed by.
//!
//! Ending a service politely often means a signal to all of its processes (`systemd` does that, and so does a terminal
//! that goes away). A guardian that died of it would take the command along without its grace. It
//! ends by its socket, by its deadline, and by SIGKILL. And it goes before others on a machine that is too busy
//! for all, because what it has to do is little and cannot wait; if that is allowed. What it starts hears
//! everything again, and waits for its turn like others.

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::setpriority_process;

const IGNORED: [Signal; 10] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGALRM,
];
/// Before all processes that did not ask for more.
const NICE: i32 = -20;

/// From now on none of these signals arrives, and others wait.
pub(super) fn be_undisturbed() -> anyhow::Result<()> {
    let ignored: SigSet = IGNORED.into_iter().collect();
    ignored.thread_block().context("block signals")?;
    // Only some may do that.
    let _ = setpriority_process(None, NICE);
    Ok(())
}
