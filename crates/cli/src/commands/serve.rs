//! Run a server.

use crate::exit::Exit;

/// How the server is to be run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs it until it is told to stop.
pub(crate) fn run(_args: Args) -> anyhow::Result<Exit> {
    anyhow::bail!("this build has no server")
}
