//! `tenure schedule`: a crontab for several machines.
//!
//! Every machine runs it with the same file. One of them is elected and starts the jobs; each run is a slot
//! ([`crate::jobs`]), claimed in the store before it starts, so a run survives a takeover: the next leader sees what was
//! run, what was begun, and what was missed.
//!
//! - `args`: what may be typed. `file`: the jobs, as YAML, JSON or TOML.
//! - `plan`: which slots are due, late or missed, as values; reads no clock.
//! - `leader`: what the library's loop does here: campaign, lead, begin again.
//! - `tenure`: one leader's time: starts what is due. `run`: one slot, from its claim to its result.
//! - `list`: what is next, and what was last.

mod args;
mod file;
mod leader;
mod list;
mod plan;
mod run;
mod tenure;

pub(super) use args::Schedule;

use self::file::File;
use self::leader::Leader;
use crate::args::Settings;
use crate::exit::Exit;

/// Runs the jobs of a file whenever this machine leads.
pub(super) async fn run(args: Schedule, settings: Settings) -> anyhow::Result<Exit> {
    let file = File::read(&args.file)?;
    if args.check {
        println!("{}: {} jobs, no errors", args.file.display(), file.jobs.len());
        return Ok(Exit::Done);
    }
    if args.list {
        return list::show(&file, &settings, args.count).await;
    }
    Leader::new(file, &args, settings)?.lead().await
}
