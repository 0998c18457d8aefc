//! Show the log in a data directory.

use std::path::PathBuf;

use tenure_server::disk::inspect::inspect;
use tenure_server::log_rows::Row;

use crate::args::Settings;
use crate::exit::Exit;
use crate::output::Output;

/// What stands below the flags.
pub(super) const AFTER_HELP: &str = "\
Reads only: nothing is written, repaired or locked. A damaged log is shown up to the damage, and the exit code is 1.

Examples:
  tenure debug wal /var/lib/tenure                           everything, one line per record
  tenure debug wal /var/lib/tenure --summary                 how much there is, and whether it is sound
  tenure debug wal /var/lib/tenure --from 1000 --to 1010     some entries
  tenure debug wal /var/lib/tenure -w json                   one object per line";

/// Which log, and what of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The data directory of a member that does not run
    #[arg(value_name = "DIR")]
    data_dir: PathBuf,
    /// Where the log is, if it is not in the data directory
    #[arg(long, value_name = "DIR")]
    wal_dir: Option<PathBuf>,
    /// Only entries from this index on
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    from: u64,
    /// Only entries up to this index
    #[arg(long, value_name = "INDEX", default_value_t = u64::MAX, hide_default_value = true)]
    to: u64,
    /// No records, only how many there are and what is wrong
    #[arg(long)]
    summary: bool,
}

pub(super) fn run(args: &Args, settings: &Settings) -> anyhow::Result<Exit> {
    let dump = inspect(&args.data_dir, args.wal_dir.as_deref())?;
    if dump.in_use {
        eprintln!(
            "{} is in use: its member writes on while this reads, and the end may look torn",
            args.data_dir.display()
        );
    }
    let ranged = args.from > 0 || args.to < u64::MAX;
    let wanted = |row: &Row| match row.index() {
        Some(index) => (args.from..=args.to).contains(&index),
        None => !ranged,
    };
    let mut output = Output::stdout(settings);
    output.log_head(&dump)?;
    if !args.summary {
        for row in dump.records.iter().map(Row::of).filter(wanted) {
            output.log_row(&row)?;
        }
    }
    output.log_end(&dump)?;
    output.flush()?;
    let sound = dump.damage.is_none() && dump.snapshot_damage.is_none();
    Ok(if sound { Exit::Done } else { Exit::Error })
}
