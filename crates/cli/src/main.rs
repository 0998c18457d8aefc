//! The tenure command.
//!
//! `args` reads what was typed, `commands` has a file for each verb, `output` writes what came back in the format asked
//! for, `exit` is the one table of exit codes, `jobs` is work that happens once for all hosts, and `advice` says what to do next when something went wrong; `memory` is
//! about giving it back. Results go to stdout, talk to stderr; `talk` is for threads that must never block.

mod advice;
mod args;
mod commands;
mod exit;
mod files;
mod guardian;
mod jobs;
mod memory;
mod output;
mod prompt;
mod talk;

use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches;

use crate::exit::Exit;

// Tests count what they take; see `tenure-damage`.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a slow reader of stderr is waited for at the end.
const LAST_WORDS: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    if let Some(code) = guardian::main(std::env::args_os()) {
        return code;
    }
    let typed = args::typed();
    if let Err(error) = args::check_format(&typed) {
        return advice::report(&error).into();
    }
    let cli = args::Cli::from_arg_matches(&typed).unwrap_or_else(|error| error.exit());
    let Some(command) = cli.command else {
        // Nothing asked for: show what can be. A closed pipe is no reason to complain.
        let _ = args::command().print_help();
        return Exit::Done.into();
    };
    let done = command.run(cli.client);
    talk::finish(LAST_WORDS);
    match done {
        Ok(exit) => exit.into(),
        Err(error) => advice::report(&error).into(),
    }
}
