//! `tenure once`: a command that runs once for all hosts that ask for it.
//!
//! The hosts compete for a lock of the job's name. The holder claims the slot ([`crate::jobs`]) and runs the command below a
//! guardian, as `tenure run` does; the others are told what became of the slot, and exit.
//!
//! - `args`: what may be typed.
//! - `history`: what came of earlier slots.

mod args;
mod history;

pub(super) use args::Once;
use tenure::backend::{JoinSpec, Mode};

use super::run::{SlotRun, Supervisor, name};
use crate::args::Settings;
use crate::exit::Exit;
use crate::jobs::Slots;

/// Runs a command, unless another process has run it for the same slot.
pub(super) async fn run(args: Once, settings: Settings) -> anyhow::Result<Exit> {
    let job = name(args.name.clone())?;
    let slots = Slots::new(settings.client(), job.to_string(), args.keep()?);
    if args.history {
        return history::show(&slots, &settings).await;
    }
    let slot = args.slot()?;
    let run = SlotRun {
        slots,
        slot,
        delivery: args.delivery(),
        retries: args.retries,
        taken: args.taken(),
        claimed: None,
    };
    let waits = args.waits();
    let (how, command) = args.how();
    let join = JoinSpec::one(job, Mode::Exclusive);
    let supervisor = Supervisor::new(join, how, command, settings, waits)?.for_slot(run);
    // Without a session, where that is possible: most hosts come late.
    match supervisor.settled_already().await {
        Ok(Some(exit)) => Ok(exit),
        Ok(None) => supervisor.supervise().await,
        Err(error) if waits && Exit::of(&error) == Exit::Unreachable => {
            supervisor.supervise().await
        }
        Err(error) => Err(error),
    }
}
