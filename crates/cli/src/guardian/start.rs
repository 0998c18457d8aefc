//! What becomes the command: ties itself to the guardian, then replaces itself.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::{fs, io};

use anyhow::Context;
use nix::sys::signal::SigSet;
use rustix::process::{Signal, getppid, set_parent_process_death_signal, setpriority_process};
use rustix::thread::set_no_new_privs;

use super::words::Charge;
use crate::exit::Exit;

/// Says that the command may gain privileges.
const NEW_PRIVILEGES: &str = "new-privileges";

/// The arguments with which [`run`] becomes `command`.
pub(super) fn arguments(
    door: Option<OsString>,
    charge: &Charge,
    command: &[OsString],
) -> Vec<OsString> {
    let privileges = if charge.new_privileges { NEW_PRIVILEGES } else { "" };
    let parent = std::process::id().to_string().into();
    let nice = charge.nice.to_string().into();
    let door = door.unwrap_or_default();
    let mut arguments = vec!["start".into(), parent, door, nice, privileges.into()];
    arguments.extend_from_slice(command);
    arguments
}

/// Becomes the command, if the guardian still lives.
pub(super) fn run(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let [parent, door, nice, privileges, program, arguments @ ..] = &arguments[..] else {
        anyhow::bail!("nothing to start");
    };
    set_parent_process_death_signal(Some(Signal::KILL)).context("follow the guardian")?;
    // A guardian that died before that call would have gone unnoticed.
    let now = getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    anyhow::ensure!(now.as_deref() == parent.to_str(), "the guardian has gone");
    if !door.is_empty() {
        // Without it the guardian has other means.
        let _ = fs::write(door, "0");
    }
    // Guardians are deaf and hurried, and what they start would inherit both.
    if let Some(nice) = nice.to_str().and_then(|text| text.parse().ok()) {
        let _ = setpriority_process(None, nice);
    }
    if privileges != NEW_PRIVILEGES {
        set_no_new_privs(true).context("give up new privileges")?;
    }
    SigSet::empty().thread_set_mask().context("hear all signals")?;
    let error = Command::new(program).args(arguments).exec();
    let _ = writeln!(io::stderr(), "tenure: cannot run {}: {error}", program.display());
    Ok(match error.kind() {
        io::ErrorKind::NotFound => Exit::NotFound.into(),
        _ => Exit::NotExecutable.into(),
    })
}
