//! Look into files of a member that does not run.

mod wal;

use clap::Subcommand;

use crate::args::ClientArgs;
use crate::exit::Exit;

/// What to look at.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the log in a data directory, entry by entry, and what is wrong with it
    #[command(after_help = wal::AFTER_HELP)]
    Wal(wal::Args),
}

/// Does it.
pub(crate) fn run(command: Command, client: ClientArgs) -> anyhow::Result<Exit> {
    match command {
        Command::Wal(args) => wal::run(&args, &client.settings()?),
    }
}
