//! Lines from stdin, on a thread of their own.

use std::io::{self, BufRead, IsTerminal};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use tokio::sync::mpsc;

/// Pause before looking again whether the terminal has become ours.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What is typed, line by line. The end of stdin ends only the lines.
pub(super) fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let stdin = io::stdin();
        let terminal = stdin.is_terminal();
        loop {
            if terminal && !is_our_turn(&stdin) {
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            let mut line = String::new();
            match stdin.lock().read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if sender.send(line).is_err() => return,
                Ok(_) => {}
            }
        }
    });
    lines
}

/// A process that reads from a terminal in the background is stopped by the kernel, and members would be left without a
/// supervisor. So nothing is read before there is something to read and the terminal is ours.
fn is_our_turn(stdin: &io::Stdin) -> bool {
    let ready = poll(&mut [PollFd::new(stdin, PollFlags::IN)], None);
    ready.is_ok() && tcgetpgrp(stdin).is_ok_and(|foreground| foreground == getpgrp())
}
