//! What a guardian does not hear.
//!
//! Whoever wants to end a service politely often tells all of its processes (`systemd` does, and so does a
//! terminal that goes away). A guardian that died of it would take the command along without its grace. It
//! ends by its socket, by its deadline, and by SIGKILL. What it starts hears everything again.

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};

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

/// From now on none of them arrives.
pub(super) fn go_deaf() -> anyhow::Result<()> {
    let ignored: SigSet = IGNORED.into_iter().collect();
    ignored.thread_block().context("block signals")
}
