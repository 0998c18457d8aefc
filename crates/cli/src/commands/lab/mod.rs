//! Run, break and check every election algorithm, ours included, in virtual time.
//!
//! `list` shows what there is, `explain` one of it, `run` plays one story or scenario, `compare` measures algorithms side by side, `soak` plays
//! scenarios of the shipped replica for a given time, `ui` serves stories to a browser, `export` writes them into a page, `replay` repeats a run. [`failure`] handles a broken invariant.

mod compare;
mod explain;
mod export;
mod failure;
mod list;
mod name;
mod run;
mod soak;
mod text;
pub(crate) mod ui;

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use tenure_lab::engine::TraceFormat;

use self::name::{Kind, NameOf, RunName};
use crate::args::ClientArgs;
use crate::exit::Exit;

/// What to do in the lab.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the algorithms, their stories, the scenarios of the shipped replica, and the faults of scripts
    List(list::Args),
    /// Explain a story, a scenario or an algorithm without running it
    Explain(explain::Args),
    /// Play a story or a scenario
    #[command(after_long_help = RUN)]
    Run(RunArgs),
    /// Measure algorithms side by side: messages, failover, fairness, partitions, pauses, clocks
    #[command(after_long_help = COMPARE)]
    Compare(compare::Args),
    /// Play scenarios of the shipped replica, seed after seed, for a given time
    #[command(after_long_help = SOAK)]
    Soak(soak::Args),
    /// Serve the lab to a browser: stories played, stepped back, broken and forked
    #[command(after_long_help = UI)]
    Ui(ui::Args),
    /// Write a page that plays stories without any server
    #[command(after_long_help = EXPORT)]
    Export(export::Args),
    /// Repeat a run and print every event
    #[command(after_long_help = REPLAY)]
    Replay {
        /// Its name, as a failure printed it: COMMIT/SCENARIO/SEED, or SCENARIO/SEED
        run: RunName,
    },
}

/// What to play, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// A story or a scenario; `tenure lab list` names them, and the name of an algorithm lists its stories
    #[arg(value_parser = NameOf(Kind::ALL), hide_possible_values = true)]
    scenario: String,
    /// The seed of all randomness
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A fault script in place of the story's or scenario's own faults; `-` reads it from stdin
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Write every event to stdout, as text or as JSON lines, in place of a timeline
    #[arg(long, value_name = "FORM")]
    trace: Option<TraceForm>,
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceForm {
    /// Text, one event per line
    Text,
    /// One JSON object per line, complete enough to draw from
    Json,
}

impl From<TraceForm> for TraceFormat {
    fn from(form: TraceForm) -> TraceFormat {
        match form {
            TraceForm::Text => TraceFormat::Text,
            TraceForm::Json => TraceFormat::Json,
        }
    }
}

const RUN: &str = "\
A story of an algorithm shows what happens as a timeline, and which promises that breaks: exit code 0 if exactly those were broken, 1 if not.
A scenario of the shipped replica fails (1) if an invariant breaks; the faults that led to it are cut down
to those that matter. With a fault script of your own a story only reports what was broken.

Examples:
  tenure lab run bully-partition                    two leaders, in a dozen lines
  tenure lab run bully-partition --trace text       the same, event by event
  tenure lab run redlock                            which stories there are of it
  tenure lab run rough --seed 17                    our own replica under all faults
  tenure lab run bully-crash --faults mine.txt      what if?
  printf 'at 2s pause e for 3s\\n' | tenure lab run bully-crash --faults - --trace json
";

const COMPARE: &str = "\
Every figure is measured, now, with seeds from 1 on. Below the table: common claims about these algorithms that
the measurement contradicts.

Examples:
  tenure lab compare                                all of them
  tenure lab compare bully ring raft --seeds 50
  tenure lab compare -w json
";

const SOAK: &str = "\
Examples:
  tenure lab soak --minutes 10                       one core, ten minutes
  tenure lab soak --minutes 60 --scenario elections  elections only
";

const UI: &str = "\
Needs no server. Runs happen in this process, within limits; the page has everything in it and asks no other address.

Examples:
  tenure lab ui                                      and open the address that it prints
  tenure lab ui --listen 127.0.0.1:0                 on any free port
";

const EXPORT: &str = "\
The page has the runs and all that shows them: it plays, steps back and tours from a file or any web server. Forks need `tenure lab ui`.

Example:
  tenure lab export redlock-pause tenure-pause -o pause.html
";

const REPLAY: &str = "\
A run is the same again only with the same commit: any change may change what happens.

Example:
  tenure lab replay rough/17 | less
";

/// Runs the subcommand.
pub(crate) fn run(command: Command, client: ClientArgs) -> anyhow::Result<Exit> {
    let format = client.settings()?.format;
    match command {
        Command::List(args) => list::run(&args, format),
        Command::Explain(args) => explain::run(&args, format),
        Command::Run(args) => run::run(&args, format),
        Command::Compare(args) => compare::run(&args, format),
        Command::Ui(args) => ui::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Soak(args) => soak::run(&args, format),
        Command::Replay { run } => run::replay(&run, format),
    }
}
