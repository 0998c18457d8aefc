//! What is next, and what was last.

use jiff::Timestamp;
use serde::Serialize;

use super::file::File;
use super::tenure::job_slots;
use crate::args::Settings;
use crate::commands::election::write;
use crate::exit::Exit;
use crate::jobs::{Record, utc};
use crate::output::visible;

/// A job, for people and as JSON.
#[derive(Serialize)]
struct Line {
    job: String,
    next: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Record>,
}

/// Shows the next runs of each job, and the last one.
pub(super) async fn show(file: &File, settings: &Settings, count: usize) -> anyhow::Result<Exit> {
    let client = settings.client();
    let mut lines = Vec::new();
    let mut unknown = None;
    for job in &file.jobs {
        let mut next = Vec::new();
        let mut time = Timestamp::now();
        while let Some(due) = job.timetable.next(time).filter(|_| next.len() < count) {
            next.push(utc(due));
            time = due;
        }
        let last = match &unknown {
            // One wait is enough.
            Some(_) => None,
            None => match job_slots(&client, file, job).list().await {
                Ok(records) => records.into_iter().last(),
                Err(error) => {
                    unknown = Some(error);
                    None
                }
            },
        };
        lines.push(Line { job: job.name.clone(), next, last });
    }
    write(settings, lines, |line| {
        let last = line.last.as_ref().map_or_else(
            || "never run".to_owned(),
            |last| format!("last {} {} by {}", last.slot, last.outcome, visible(&last.identity)),
        );
        format!("{}\tnext {}\t{last}", visible(&line.job), line.next.join(", "))
    })?;
    if let Some(error) = unknown {
        eprintln!("what was run last is not known: {:#}", anyhow::Error::from(error));
    }
    Ok(Exit::Done)
}
