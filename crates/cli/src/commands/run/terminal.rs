//! The terminal: lent to the command when it wants it, and taken back.
//!
//! The command has a process group of its own, and the terminal speaks to one group only. As long as
//! the command does not read from it that is the supervisor's, which passes Ctrl-C on and counts it:
//! the second one kills. A command that reads (a shell, psql) is stopped by the kernel then; it gets
//! the terminal, and Ctrl-C with it, until it ends.

use std::io;
use std::os::fd::AsFd;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// Which process group has the terminal.
#[derive(Debug, Default)]
pub(super) struct Terminal {
    lent: Option<Pid>,
    /// The command was stopped because it wants it, and it was not ours to lend.
    wanted: bool,
}

impl Terminal {
    /// Lends it to a process group, if it is ours to lend.
    pub(super) fn lend(&mut self, group: i32) -> bool {
        let Some(group) = Pid::from_raw(group) else { return false };
        self.wanted = tcgetpgrp(io::stdin().as_fd()) != Ok(getpgrp());
        if self.wanted {
            return false;
        }
        let lent = give(group);
        self.lent = lent.then_some(group);
        lent
    }

    /// The same, if the command waits for it: for when we were brought to the foreground.
    pub(super) fn lend_if_wanted(&mut self, group: i32) -> bool {
        self.wanted && self.lend(group)
    }

    /// Takes it back, if it is still where it was lent to.
    pub(super) fn take_back(&mut self) {
        if let Some(group) = self.lent.take()
            && tcgetpgrp(io::stdin().as_fd()) == Ok(group)
        {
            give(getpgrp());
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Without this block a process in the background would be stopped by the attempt.
fn give(group: Pid) -> bool {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGTTOU);
    let was_blocked = blocked.thread_block().is_ok();
    let given = tcsetpgrp(io::stdin().as_fd(), group).is_ok();
    if was_blocked {
        let _ = blocked.thread_unblock();
    }
    given
}
