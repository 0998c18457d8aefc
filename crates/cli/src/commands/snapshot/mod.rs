//! Save what a cluster holds, look at such a file, make a new cluster of it.

mod restore;
mod save;
mod status;

use std::path::PathBuf;

use clap::Subcommand;

use crate::args::ClientArgs;
use crate::exit::Exit;

/// What to do about backups.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Save what a member holds to a file
    Save {
        /// The file; it is there as a whole or not at all
        file: PathBuf,
    },
    /// Check a saved file and show what it holds
    Status {
        /// The file
        file: PathBuf,
        /// Read it though it has no checksum at its end (those inside are checked all the same)
        #[arg(long)]
        skip_hash_check: bool,
    },
    /// Make a data directory of a saved file, for a member of a new cluster
    #[command(after_help = restore::AFTER_HELP)]
    Restore(Box<restore::Args>),
}

/// Does it.
pub(crate) fn run(command: Command, client: ClientArgs) -> anyhow::Result<Exit> {
    match command {
        Command::Save { file } => super::block_on(save::run(&file, client.settings()?)),
        Command::Status { file, skip_hash_check } => {
            status::run(&file, skip_hash_check, &client.settings()?)
        }
        Command::Restore(args) => restore::run(&args, &client.settings()?),
    }
}
