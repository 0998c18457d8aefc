//! `tenure run` and `tenure lock`: any program as the one leader, safely.
//!
//! This process is the supervisor: it keeps the session, campaigns, and decides. The command runs
//! below a guardian ([`crate::guardian`]) that ends it in time whatever becomes of the supervisor. A
//! successor is told that it leads only when the one before has surely stopped: its lease has run
//! out, or its guardian has said so.
//!
//! - `args`: what may be typed. `size`, `signals`: words of it.
//! - `supervisor`: the policy on [`tenure::leading`]: stand by, lead, begin again. `standby` and `leading` are its two halves, `takeover` comes
//!   between them.
//! - `health`, `stonith`: when not to lead, and what to do about earlier leaders; `shell` runs their commands.
//! - `marker`, `terminal`: what others see of it.
//! - `slot`: a command that runs once for all hosts (`tenure once`).
//!
//! A lock without a command is held by [`super::hold`].

mod args;
mod fence_map;
mod health;
mod leading;
mod marker;
mod shell;
pub(super) mod signals;
mod size;
mod slot;
mod standby;
mod stonith;
mod supervisor;
mod takeover;
mod terminal;

pub(super) use args::{
    FenceArgs, HealthArgs, How, Lock, OnDoubt, Restart, Run, check_grace, usual_grace,
};
pub(super) use signals::{Signals, Wish};
pub(super) use slot::SlotRun;
pub(super) use supervisor::{Supervisor, overdue};

use std::io::Write;

use tenure::backend::{JoinSpec, Mode};
use tenure::{ElectionName, Held};

use super::hold::Holding;
use crate::args::Settings;
use crate::exit::{Exit, usage};

/// Runs a command while leading.
pub(super) async fn run(args: Run, settings: Settings) -> anyhow::Result<Exit> {
    let join = JoinSpec::one(name(args.name())?, Mode::Exclusive);
    Supervisor::new(join, args.how, args.command, settings, true)?.supervise().await
}

/// Runs a command while holding a lock, or just holds it.
pub(super) async fn lock(args: Lock, settings: Settings) -> anyhow::Result<Exit> {
    let mode = match (args.shared, args.permits) {
        (true, _) => Mode::Shared,
        (false, Some(permits)) => Mode::Permit(permits.get()),
        (false, None) => Mode::Exclusive,
    };
    let command = args.command();
    let join = JoinSpec::one(name(args.name)?, mode);
    if mode != Mode::Exclusive && args.how.fence.fence_cmd.is_some() {
        return Err(usage(
            "--fence-cmd is for a lock that one holds: others hold this one beside us",
        ));
    }
    if command.is_empty() {
        return hold(join, args.how, &settings).await;
    }
    Supervisor::new(join, args.how, command, settings, false)?.supervise().await
}

/// A lock without a command: prints its token, and holds it until interrupted.
async fn hold(mut join: JoinSpec, how: How, settings: &Settings) -> anyhow::Result<Exit> {
    how.validate()?;
    how.without_command()?;
    how.apply_to(&mut join);
    let holding = Holding {
        join,
        options: how.candidate.session(how.ttl),
        waits: how.candidate.wait_for_server.unwrap_or(false),
        timeout: how.timeout,
        once: how.once,
        conflict: how.conflict(),
        gave_up: "released",
        announce: |held: &Held| {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{}", held.token())?;
            Ok(out.flush()?)
        },
    };
    holding.run(settings).await
}

pub(super) fn name(text: String) -> anyhow::Result<ElectionName> {
    ElectionName::try_from(text).map_err(|error| usage(error.to_string()))
}
