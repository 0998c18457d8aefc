//! A member that must not outlive the process that started it.
//!
//! `tenure up` kills its members when it ends, but cannot if it is itself killed with
//! -9. So the kernel is asked to: the member says of itself that it dies with its parent.

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Names the process to die with. Not a setting: it concerns one life of one process.
pub(crate) const VARIABLE: &str = "TENURE_DIES_WITH";

/// Puts this process on the leash, if it was asked to be on one. False if the process that holds it is gone already.
pub(super) fn put_on() -> anyhow::Result<bool> {
    let Ok(named) = std::env::var(VARIABLE) else { return Ok(true) };
    let pid = named.parse().ok().and_then(Pid::from_raw);
    let holder = pid.ok_or_else(|| anyhow::anyhow!("{VARIABLE}: {named:?} is not a process id"))?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before that; then no signal will come.
    Ok(getppid() == Some(holder))
}
