//! The guardian: the process that ends a command in time for its lease.
//!
//! A command must be gone before the lease that it runs under can end at the server. The supervisor
//! (`tenure run`, `tenure lock`) cannot promise that alone: a process that was stopped cannot kill, and
//! one that was killed even less. So the command runs below two small processes that do nothing else:
//!
//! ```text
//! tenure run                    renews the session, decides; tells every new deadline downwards
//! └─ guardian outer             counts the deadline too; kills everything below if inner does not
//!    └─ guardian inner          counts the deadline: SIGTERM, grace, SIGKILL; starts and reaps
//!       └─ the command          a process group of its own, killed by the kernel if inner dies
//!          └─ …                 whatever it starts, also what turns away from it
//! ```
//!
//! Each level is a *child subreaper*: a process that loses its parent becomes a child of the nearest
//! guardian, whatever it did to get away. So "I have no child left" means that the whole tree is gone,
//! and killing children until there are none needs no list of processes that could be out of date.
//! Where a control group may be made, the command lives in one, and the kernel kills all of it at once.
//!
//! Any level may be killed or stopped. When the one above is gone, its socket says so: the tree is
//! stopped at once, and the guardian that did it tells the server that all work has ended, so that a successor
//! need not wait. When the one above is only silent, the deadline decides. Two levels stand because one
//! may be killed together with the supervisor.
//!
//! What this cannot stop: processes of another user, processes that others start on
//! the command's behalf (`systemd-run`, a container engine), and anything at all if the supervisor and
//! both guardians are killed in one stroke; then the kernel kills the command, but not what turned
//! away from it. That is what fencing tokens are for.
//!
//! - `words`: the messages between the levels.
//! - `plan`: when to do what, as a value; reads no clock.
//! - `tree`: children, their end, and how to bring it about. `cgroup`: the same by the kernel's means.
//! - `post`, `alarm`: lines over a socket, a timer that counts suspends.
//! - `inner`, `outer`: the two processes; `undisturbed`: what they do not hear. `start`: what becomes the command.
//! - `confirm`: tells the server that all has ended. `watchdog`: a device that resets the machine.
//! - `handle`: the supervisor's end.

mod alarm;
mod cgroup;
mod confirm;
#[cfg(test)]
mod fuzz;
mod handle;
mod inner;
mod outer;
mod plan;
mod post;
mod start;
mod tree;
mod undisturbed;
mod watchdog;
mod words;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

pub(crate) use handle::{Guardian, Job};
pub(crate) use plan::kill_time;
pub(crate) use tree::rss_bytes;
pub(crate) use watchdog::timeout as watchdog_timeout;
pub(crate) use words::{
    Charge, Ending, News, SessionCharge, SessionSecretBytes, UserCharge, WatchdogCharge,
};

/// The first argument with which this program is a guardian. Not meant to be typed.
pub(crate) const VERB: &str = "guardian";

/// Is a guardian, if that is what this process was started as.
pub(crate) fn main(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if args.nth(1)? != VERB {
        return None;
    }
    let role = args.next()?;
    let done = match role.to_str()? {
        "outer" => outer::run(args.collect()),
        "inner" => inner::run(args.collect()),
        "start" => start::run(args.collect()),
        _ => return None,
    };
    Some(match done {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "tenure {VERB} {}: {error:#}", role.display());
            ExitCode::FAILURE
        }
    })
}
