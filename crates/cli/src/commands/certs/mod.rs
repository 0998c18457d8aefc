//! Certificates of a cluster's own: an authority, and pairs for members and clients that it has signed.
//!
//! All of it are files in one directory. [`store`] knows their names, [`mod@create`] and [`renew`] write them, [`show`] reads them, and
//! [`check`] says what will expire and what does not fit. `tenure up --tls` uses the same.

mod check;
mod create;
mod renew;
mod show;
mod store;

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use crate::args::{ClientArgs, duration};
use crate::exit::Exit;

pub(super) use create::{Member, Wish, create};
pub(super) use store::Store;

const DAY: Duration = Duration::from_secs(86400);
/// What is said of certificates that expire sooner.
const SOON: &str = "30d";

/// What to do with certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an authority, unless there is one, and pairs for members and clients
    #[command(visible_alias = "init")]
    Create(create::Args),
    /// Show what stands in certificates
    Show(show::Args),
    /// Say what will expire when, and what does not fit: exit 1 if there is something
    Check(check::Args),
    /// Renew pairs that expire soon, for the same names and keys
    Renew(renew::Args),
}

/// Where the files are.
#[derive(Debug, clap::Args)]
pub(super) struct Place {
    /// The directory of the certificates
    #[arg(long, value_name = "DIR", default_value = "certs")]
    dir: PathBuf,
}

/// How soon is soon.
#[derive(Debug, clap::Args)]
pub(super) struct Horizon {
    /// Certificates that expire within this time are due
    #[arg(long, value_name = "DURATION", default_value = SOON, value_parser = duration)]
    within: Duration,
}

/// Does it. No cluster is asked.
pub(crate) fn run(command: Command, client: ClientArgs) -> anyhow::Result<Exit> {
    let format = client.format()?;
    match command {
        Command::Create(args) => create::run(args, format),
        Command::Show(args) => show::run(&args, format),
        Command::Check(args) => check::run(&args, format),
        Command::Renew(args) => renew::run(&args, format),
    }
}

/// A time as people write it, in UTC.
fn day(time: std::time::SystemTime) -> String {
    let since = time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| "?".to_owned(), |at| at.to_string())
}
