//! What came of the slots of a job.

use jiff::Timestamp;
use serde::Serialize;

use crate::args::Settings;
use crate::commands::election::write;
use crate::exit::Exit;
use crate::jobs::{Outcome, Record, Slots, utc};
use crate::output::visible;

/// A slot, and whether it is being run at this moment.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    record: Record,
    /// It was begun, and its process holds the job's lock no more.
    interrupted: bool,
}

/// Shows all slots that are remembered, oldest first.
pub(super) async fn show(slots: &Slots, settings: &Settings) -> anyhow::Result<Exit> {
    let records = slots.list().await?;
    let holder = slots.held_with().await?;
    let shown = records.into_iter().map(|record| Shown {
        interrupted: record.outcome == Outcome::Running && holder != Some(record.token),
        record,
    });
    write(settings, shown, line)?;
    Ok(Exit::Done)
}

fn line(Shown { record, interrupted }: &Shown) -> String {
    let outcome = match (record.outcome, record.exit_code) {
        (Outcome::Running, _) if *interrupted => "did not finish".to_owned(),
        (Outcome::Running, _) => "runs".to_owned(),
        (Outcome::Done, _) => "done".to_owned(),
        (Outcome::Failed, Some(code)) => format!("failed, exit code {code}"),
        (Outcome::Failed, None) => "ended before it was done".to_owned(),
        (Outcome::Skipped, _) => "skipped".to_owned(),
    };
    let ended = record.ended_unix_ms.map_or_else(|| "…".to_owned(), time);
    let attempts = match record.attempts {
        0 | 1 => String::new(),
        many => format!("\t{many} attempts"),
    };
    format!(
        "{}\t{outcome}\t{}\ttoken {}\t{}\t{ended}{attempts}",
        visible(&record.slot),
        visible(&record.identity),
        record.token,
        time(record.started_unix_ms),
    )
}

fn time(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| "?".to_owned(), utc)
}
